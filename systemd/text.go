package systemd

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// textSink writes an entry as one line for people:
//
//	15:04:05.000 INFO  message key=value
//
// or, with prefix, as sd-daemon(3) has it:
//
//	<6>message key=value
type textSink struct {
	out    io.Writer // gets each line in one Write
	prefix bool
}

func (s *textSink) write(e entry) error {
	var b []byte
	if s.prefix {
		b = append(b, '<', '0'+priority(e.level), '>')
	} else {
		if !e.time.IsZero() {
			b = e.time.AppendFormat(b, "15:04:05.000 ")
		}
		b = fmt.Appendf(b, "%-5s ", e.level)
	}
	b = append(appendText(b, e), '\n')
	_, err := s.out.Write(b)
	return err
}

// appendText adds the message and its attributes as one line of text. Whatever
// a client had a hand in can neither break the line nor command the terminal.
func appendText(b []byte, e entry) []byte {
	if strings.ContainsFunc(e.message, unprintable) {
		b = strconv.AppendQuote(b, e.message)
	} else {
		b = append(b, e.message...)
	}
	for _, f := range e.fields {
		b = appendWord(append(b, ' '), f.key)
		b = appendWord(append(b, '='), f.value)
	}
	return b
}

// appendWord adds s, quoted where it would not be one word.
func appendWord(b []byte, s string) []byte {
	if s == "" || strings.ContainsAny(s, ` "=`) || strings.ContainsFunc(s, unprintable) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

func unprintable(r rune) bool {
	return r == unicode.ReplacementChar || !unicode.IsPrint(r)
}
