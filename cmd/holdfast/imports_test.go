package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/holdfast-proxy/holdfast/"

// listed is what `go list` tells of one of our packages. Imports counts what its
// tests import too; Deps is everything that the package itself links.
type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// rule forbids the packages under one of the paths to depend on any of the
// forbidden ones.
type rule struct {
	of        []string // paths inside the module; a path holds for what lies below it
	except    []string
	forbidden []string // paths inside the module, or of other modules
	allowed   []string
	reason    string
}

var rules = []rule{
	{
		of:        []string{"proxy"},
		forbidden: []string{"activation", "fdstore", "systemd", "cmd", "vmtest"},
		reason:    "the proxy is handed sockets and a keeper through interfaces of its own, so that it runs and is tested without either",
	},
	{
		of:        []string{"activation", "fdstore", "systemd"},
		forbidden: []string{"proxy", "cmd", "vmtest"},
		allowed:   []string{"proxy/leaktest"}, // a leaf, for tests
		reason:    "it is a library that another service can use without our proxy",
	},
	{
		of:        []string{"activation/sock"},
		forbidden: []string{""},
		allowed:   []string{"activation/sock"},
		reason:    "every package that holds descriptors uses it: it is a leaf",
	},
	{
		of:        []string{"activation/occasional"},
		forbidden: []string{""},
		allowed:   []string{"activation/occasional"},
		reason:    "it is a leaf, too",
	},
	{
		of:        []string{"activation/handover", "activation/pidfd", "fdstore"},
		forbidden: []string{""},
		allowed:   []string{"activation/handover", "activation/occasional", "activation/pidfd", "activation/sock", "fdstore"},
		reason:    "a source of descriptors knows the descriptor and nothing else of ours, but how to log what strangers do",
	},
	{
		of:        []string{"vmtest"},
		forbidden: []string{""},
		allowed:   []string{"vmtest"},
		reason:    "it is a black-box test of what users install",
	},
	{
		of:        []string{""},
		except:    []string{"proxy/config"},
		forbidden: []string{"github.com/knadh/koanf"},
		reason:    "how a config file is read is known in one place; everybody else gets the typed config",
	},
	{
		of:        []string{""},
		except:    []string{"cmd/holdfast/internal/cli"},
		forbidden: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
		reason:    "the command line is known in one place",
	},
}

func TestImportsPointOneWay(t *testing.T) {
	for _, pkg := range packages(t) {
		for _, r := range rules {
			if !under(pkg.ImportPath, r.of) || under(pkg.ImportPath, r.except) {
				continue
			}
			for _, dep := range r.reach(pkg) {
				if under(dep, r.forbidden) && !under(dep, r.allowed) {
					t.Errorf("%s depends on %s, but %s",
						strings.TrimPrefix(pkg.ImportPath, module), strings.TrimPrefix(dep, module), r.reason)
				}
			}
		}
	}
}

// reach is what a rule looks at: for our own packages everything that is linked,
// for others only what is imported in so many words.
func (r rule) reach(pkg listed) []string {
	direct := append(append(pkg.Imports, pkg.TestImports...), pkg.XTestImports...)
	if strings.Contains(r.forbidden[0], ".") {
		return direct
	}
	return append(direct, pkg.Deps...)
}

func TestNoPackageIsAGrabBag(t *testing.T) {
	for _, pkg := range packages(t) {
		switch path.Base(pkg.ImportPath) {
		case "util", "utils", "common", "helper", "helpers", "misc", "shared":
			t.Errorf("%s: name a package after its one purpose; what fits everything ends up holding everything", pkg.ImportPath)
		}
	}
}

// under says whether a package lies at or below one of the paths. The empty path
// is our whole module.
func under(pkg string, paths []string) bool {
	for _, p := range paths {
		full := module + p
		if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
			full = p // of another module
		}
		full = strings.TrimSuffix(full, "/")
		if pkg == full || strings.HasPrefix(pkg, full+"/") {
			return true
		}
	}
	return false
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", module+"...").Output()
	require.NoError(t, err)
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg listed
		err := dec.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all = append(all, pkg)
	}
	require.NotEmpty(t, all)
	return all
}

func TestARuleThatIsBrokenIsNoticed(t *testing.T) {
	sinner := listed{ImportPath: module + "proxy/relay", Deps: []string{"fmt", module + "systemd"}}
	require.True(t, under(sinner.ImportPath, rules[0].of))
	require.True(t, under(rules[0].reach(sinner)[1], rules[0].forbidden))
	require.False(t, under(module+"proxyx", []string{"proxy"}), "a longer name is another package")
	require.True(t, under("github.com/knadh/koanf/v2", []string{"github.com/knadh/koanf"}))
}
