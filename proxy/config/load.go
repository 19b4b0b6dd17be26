package config

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/knadh/koanf/v2"
)

// Source says where a configuration comes from. Later fields win over earlier
// ones.
type Source struct {
	File         string    // path, its extension is the format; "" = no file
	FileOptional bool      // File may be missing if a listener comes from elsewhere
	Environ      []string  // in the form of os.Environ
	Overrides    Overrides // flags
}

// readPatience is how long Load waits for the file.
const readPatience = 5 * time.Second

// Load reads, merges and validates a configuration: [Source.Read] with five seconds,
// then [Inputs.Parse]. Every error is an [*Error]. It wraps fs.ErrNotExist if there is
// no configuration at all and fs.ErrPermission if the file may not be read.
func Load(src Source) (*Config, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readPatience)
	defer cancel()
	in, err := src.Read(ctx)
	if err != nil {
		return nil, err
	}
	return in.Parse()
}

// Parse is [Load] for a file whose content is already here. The extension of
// name says the format; name is never opened.
func Parse(name string, data []byte, environ []string, over Overrides) (*Config, error) {
	return Inputs{File: name, Data: data, Environ: environ, Overrides: over}.Parse()
}

// Read reads the file, at most as much of it as a configuration may have, and
// gathers it with the rest that decides the configuration. It judges nothing but
// the extension. An error is one of those of [Load]; it wraps that of ctx if the file
// did not come in time.
func (s Source) Read(ctx context.Context) (Inputs, error) {
	in := Inputs{File: s.File, Environ: relevant(s.Environ), Overrides: s.Overrides}
	if s.File == "" {
		return in, nil
	}
	if _, problems := parserFor(s.File); problems != nil {
		return Inputs{}, &Error{Problems: problems}
	}
	data, problems := readFile(ctx, s.File)
	if problems == nil {
		in.Data = data
		return in, nil
	}
	unread := &Error{Problems: problems}
	if s.FileOptional && errors.Is(unread, fs.ErrNotExist) {
		in.Missing = true
		return in, nil
	}
	return Inputs{}, unread
}

// build lays the environment and the flags over the document. If nothing is
// wrong but that there is no listener, it reports empty.
func build(doc document, in Inputs, empty Problem) (*Config, error) {
	r := &report{places: doc.places}
	if r.places == nil {
		r.places = places{}
	}
	merged := koanf.New(delimiter)
	checked, _ := schema.check(r, nil, doc.values)
	file, _ := checked.(map[string]any)
	for _, source := range []koanf.Provider{layer(file), environment(r, file, in.Environ), flags(r, in.Overrides)} {
		if err := merged.Load(source, nil); err != nil {
			return nil, &Error{Problems: []Problem{{Message: err.Error(), cause: err}}}
		}
	}
	c := decode(r, merged.Raw(), in.Environ)
	validate(r, c)
	if len(c.Listeners) == 0 && len(r.problems) == 0 {
		empty.Hint = "add a [listener.NAME] table, or use --listen and --upstream"
		r.problems = append(r.problems, empty)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// layer is one source of the configuration, ready to be merged.
type layer map[string]any

// Read implements koanf.Provider.
func (l layer) Read() (map[string]any, error) { return l, nil }

// ReadBytes implements koanf.Provider.
func (l layer) ReadBytes() ([]byte, error) {
	return nil, errors.New("a layer has no text")
}
