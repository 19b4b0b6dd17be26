package config

import (
	"context"
	"errors"

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

// Load reads, merges and validates a configuration: [Source.Read], then
// [Inputs.Parse]. Every error is an [*Error]. It wraps fs.ErrNotExist if there is
// no configuration at all and fs.ErrPermission if the file may not be read.
func Load(src Source) (*Config, error) {
	in, err := src.Read(context.Background())
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
	adopt(r, c, in.Overrides.Adopted)
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
