package main

import (
	"fmt"
	"slices"
)

// output keeps the beginning and the end of what is written to it, half of most
// each. A test that fails is explained by the one or by the other.
type output struct {
	half       int
	head, tail []byte
	cut        int // bytes before the tail that are gone
}

func newOutput(most int) *output { return &output{half: most / 2} }

// Write never fails.
func (o *output) Write(b []byte) (int, error) {
	first := min(len(b), o.half-len(o.head))
	o.head = append(o.head, b[:first]...)
	o.tail = append(o.tail, b[first:]...)
	if len(o.tail) >= 2*o.half { // not for each byte
		o.cutTail()
	}
	return len(b), nil
}

// cutTail leaves the half that is to be kept.
func (o *output) cutTail() {
	if more := len(o.tail) - o.half; more > 0 {
		o.cut += more
		o.tail = append(o.tail[:0], o.tail[more:]...)
	}
}

// bytes is what was written, or both ends of it and between them a line that says
// how much is missing.
func (o *output) bytes() []byte {
	o.cutTail()
	var notice []byte
	if o.cut > 0 {
		notice = fmt.Appendf(nil, "\n(… %d bytes were cut out …)\n", o.cut)
	}
	return slices.Concat(o.head, notice, o.tail)
}
