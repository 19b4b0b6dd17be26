package image

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// mirror is the URI of the archive that this host's own apt installs from, so
// that an image comes from wherever this host may get packages. The environment
// variable VMTEST_MIRROR goes before it.
func mirror() (string, error) {
	if uri := os.Getenv("VMTEST_MIRROR"); uri != "" {
		return uri, nil
	}
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	codename := osReleaseField(string(release), "VERSION_CODENAME")
	files, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		return "", err
	}
	for _, file := range append(files, "/etc/apt/sources.list") {
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		find := archiveInList
		if filepath.Ext(file) == ".sources" {
			find = archiveInDeb822
		}
		if uri := find(string(content), codename); uri != "" {
			return uri, nil
		}
	}
	return "", fmt.Errorf("apt of this host has no source for its release %q; set VMTEST_MIRROR to an archive of Debian", codename)
}

// archiveInDeb822 finds the URI of the stanza that has suite, see
// sources.list(5); "" if there is none.
func archiveInDeb822(content, suite string) string {
	for stanza := range strings.SplitSeq(content, "\n\n") {
		fields := map[string][]string{}
		for line := range strings.Lines(stanza) {
			if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
				fields[strings.ToLower(name)] = strings.Fields(value)
			}
		}
		uris := fields["uris"]
		if slices.Contains(fields["types"], "deb") && slices.Contains(fields["suites"], suite) && len(uris) > 0 {
			return uris[0]
		}
	}
	return ""
}

// archiveInList finds the URI of the line that has suite, in the older format.
func archiveInList(content, suite string) string {
	for line := range strings.Lines(content) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "deb" {
			continue
		}
		words = words[1:]
		if options := slices.IndexFunc(words, func(w string) bool { return strings.HasSuffix(w, "]") }); options >= 0 {
			words = words[options+1:]
		}
		if len(words) > 1 && words[1] == suite {
			return words[0]
		}
	}
	return ""
}

func osReleaseField(content, name string) string {
	for line := range strings.Lines(content) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

// proxyOptions are the proxies of this host's apt, as options for another.
func proxyOptions() []string {
	var options []string
	for _, name := range []string{"Acquire::http::Proxy", "Acquire::https::Proxy"} {
		out, err := exec.Command("apt-config", "dump", "--format", "%v", name).Output()
		if value := strings.TrimSpace(string(out)); err == nil && value != "" {
			options = append(options, fmt.Sprintf("%s %q", name, value))
		}
	}
	return options
}
