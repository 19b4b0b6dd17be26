package main

import (
	"encoding/binary"
	"math/rand/v2"
)

// pattern is an endless text that no other pattern shares: a byte that is lost,
// doubled, moved or from another connection does not fit.
type pattern struct {
	source *rand.ChaCha8
}

func newPattern(seed uint64) pattern {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return pattern{rand.NewChaCha8(key)}
}

// next fills b with the text's continuation. It does not matter in which pieces
// a text is read.
func (p pattern) next(b []byte) { _, _ = p.source.Read(b) }
