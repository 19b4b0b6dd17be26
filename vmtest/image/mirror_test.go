package image

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheArchiveIsTheOneOfTheHostsOwnRelease(t *testing.T) {
	const sources = `# other software
Types: deb
URIs: https://other.example/apt
Suites: nodistro
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm

Types: deb
URIs: http://security.example/debian-security
Suites: bookworm-security

Types: deb deb-src
# URIs: http://old.example/debian
URIs: http://mirror.example/debian http://second.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
`
	assert.Equal(t, "http://mirror.example/debian", archiveInDeb822(sources, "bookworm"))
	assert.Empty(t, archiveInDeb822(sources, "trixie"))
	assert.Empty(t, archiveInDeb822("", "bookworm"))

	const list = `# deb http://commented.example/debian bookworm main
deb-src http://source.example/debian bookworm main
deb http://security.example/debian-security bookworm-security main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main
`
	assert.Equal(t, "http://mirror.example/debian", archiveInList(list, "bookworm"))
	assert.Empty(t, archiveInList(list, "trixie"))
	assert.Empty(t, archiveInList("deb\ndeb [x]\ndeb [x] u\n", "bookworm"))
}

func TestFieldsOfOSRelease(t *testing.T) {
	const content = "ID=debian\nVERSION_CODENAME=\"bookworm\"\nOTHER_VERSION_CODENAME=x\n"
	assert.Equal(t, "bookworm", osReleaseField(content, "VERSION_CODENAME"))
	assert.Equal(t, "debian", osReleaseField(content, "ID"))
	assert.Empty(t, osReleaseField(content, "VERSION"))
}
