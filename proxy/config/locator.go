package config

import "unicode/utf8"

// locator turns byte offsets of a file into places. Offsets that rise are
// cheap: it walks the file once.
type locator struct {
	file         string
	data         []byte
	offset       int
	line, column int
}

func newLocator(file string, data []byte) *locator {
	return &locator{file: file, data: data, line: 1, column: 1}
}

// at is the place of the character at offset.
func (l *locator) at(offset int) place {
	if offset < l.offset {
		*l = *newLocator(l.file, l.data)
	}
	for l.offset < min(offset, len(l.data)) {
		_, size := utf8.DecodeRune(l.data[l.offset:])
		if l.data[l.offset] == '\n' {
			l.line++
			l.column = 0
		}
		l.column++
		l.offset += size
	}
	return place{l.file, l.line, l.column}
}
