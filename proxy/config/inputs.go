package config

import (
	"bytes"
	"io/fs"
	"slices"
)

// Inputs is everything that decides a configuration. The same inputs give the
// same configuration wherever and whenever they are parsed.
//
// The JSON form is persistent: the configuration in service is kept in it over
// restarts, and what one version of the program wrote another one reads. So a
// field keeps its name and its meaning for good, the zero value of a new field
// means what was before it, and a reader ignores fields that it does not know.
// A path that is not UTF-8 does not survive it.
type Inputs struct {
	File      string    `json:"file,omitempty"`    // path, its extension is the format of Data; "" = no file
	Missing   bool      `json:"missing,omitempty"` // File was not there, and did not have to be
	Data      []byte    `json:"data,omitempty"`    // content of File; in base64
	Environ   []string  `json:"environ,omitempty"` // NAME=value, no variables but those that matter here; sorted by name
	Overrides Overrides `json:"overrides,omitzero"`
}

// Parse merges and validates. It touches nothing outside, the file neither, and
// an error is one of those of [Load].
func (in Inputs) Parse() (*Config, error) {
	switch {
	case in.File == "":
		return build(document{}, in, Problem{
			Message: "no configuration: no file, no listener in the environment or the flags",
			cause:   fs.ErrNotExist,
		})
	case in.Missing:
		return build(document{}, in, Problem{
			File:    in.File,
			Message: "no configuration: the file does not exist, and no listener is in the environment or the flags",
			cause:   fs.ErrNotExist,
		})
	}
	doc, problems := parseFile(in.File, in.Data)
	if problems != nil {
		return nil, (&report{problems: problems}).err()
	}
	return build(doc, in, Problem{File: in.File, Message: "no listener is configured"})
}

// Path is the file that was read, "" if there was none.
func (in Inputs) Path() string {
	if in.Missing {
		return ""
	}
	return in.File
}

// Equal reports whether both say the same in the same words, which a JSON form
// and back does not change. Inputs that differ may still give equal
// configurations.
func (in Inputs) Equal(other Inputs) bool {
	return in.File == other.File &&
		in.Missing == other.Missing &&
		bytes.Equal(in.Data, other.Data) &&
		slices.Equal(in.Environ, other.Environ) &&
		in.Overrides.equal(other.Overrides)
}
