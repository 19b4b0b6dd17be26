package systemd

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// entry is one log message with its attributes as text.
type entry struct {
	time    time.Time
	level   slog.Level
	message string
	fields  []field
}

// field is an attribute. The names of its groups are before its key, "a.b.key".
type field struct {
	key, value string
}

// sink is where entries go. It may be called from several goroutines.
type sink interface {
	write(e entry) error
}

// handler is the slog side of every sink.
type handler struct {
	level  slog.Leveler
	sink   sink
	group  string  // of WithGroup, with a dot at its end
	fields []field // of WithAttrs
}

func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	e := entry{time: r.Time, level: r.Level, message: r.Message, fields: slices.Clip(h.fields)}
	r.Attrs(func(a slog.Attr) bool {
		e.fields = appendFields(e.fields, h.group, a)
		return true
	})
	return h.sink.write(e)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.fields = slices.Clip(h.fields)
	for _, a := range attrs {
		with.fields = appendFields(with.fields, h.group, a)
	}
	return &with
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.group += name + "."
	return &with
}

// appendFields flattens an attribute as slog.Handler demands: values resolved,
// empty attributes and groups left out, groups without a name inlined.
func appendFields(fields []field, group string, a slog.Attr) []field {
	v := a.Value.Resolve()
	if a.Key == "" && v.Equal(slog.Value{}) {
		return fields
	}
	if v.Kind() == slog.KindTime {
		return append(fields, field{group + a.Key, v.Time().Format(time.RFC3339Nano)})
	}
	if v.Kind() != slog.KindGroup {
		return append(fields, field{group + a.Key, v.String()})
	}
	if a.Key != "" {
		group += a.Key + "."
	}
	for _, member := range v.Group() {
		fields = appendFields(fields, group, member)
	}
	return fields
}
