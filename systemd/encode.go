package systemd

import (
	"encoding/binary"
	"strings"
)

// Limits of a message, in bytes. A datagram must fit into the send buffer,
// 208 KiB by default; larger ones would have to go by memfd.
const (
	maxMessage   = 64 << 10 // fields that do not fit are left out
	maxValue     = 16 << 10 // longer values are cut
	maxFieldName = 64       // journald drops fields with longer names
)

// encode is an entry in the journal's native protocol. The attributes are
// fields, and also in MESSAGE, as journalctl shows nothing else by default.
func encode(e entry, identifier string) []byte {
	b := appendField(nil, "MESSAGE", string(appendText(nil, e)))
	b = appendField(b, "PRIORITY", string('0'+priority(e.level)))
	if identifier != "" {
		b = appendField(b, "SYSLOG_IDENTIFIER", identifier)
	}
	for _, f := range e.fields {
		b = appendField(b, fieldName(f.key), f.value)
	}
	return b
}

func appendField(b []byte, name, value string) []byte {
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "") + "…"
	}
	if len(b)+len(name)+len(value)+len("\n")*2+8 > maxMessage {
		return b
	}
	b = append(b, name...)
	if strings.Contains(value, "\n") {
		b = append(b, '\n')
		b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	} else {
		b = append(b, '=')
	}
	return append(append(b, value...), '\n')
}

// fieldName makes a valid field name of any key: A-Z, 0-9 and underscores, no
// underscore or digit first. "group.key" is GROUP_KEY.
func fieldName(key string) string {
	name := strings.TrimLeft(strings.Map(fieldRune, key), "_")
	if name == "" || name[0] <= '9' || ownField(name) {
		name = "X_" + name
	}
	return name[:min(len(name), maxFieldName)]
}

func fieldRune(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z':
		return r - 'a' + 'A'
	case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return r
	}
	return '_'
}

// ownField tells the fields that encode makes itself; a second value of one of
// them would confuse journalctl.
func ownField(name string) bool {
	return name == "MESSAGE" || name == "PRIORITY" || name == "SYSLOG_IDENTIFIER"
}
