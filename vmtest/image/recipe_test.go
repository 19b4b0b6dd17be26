package image

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEachReleaseHasAnImageOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Releases {
		seen[hash(r)] = true
	}
	assert.Len(t, seen, len(Releases))
}

func TestRecipeListsHaveNoComments(t *testing.T) {
	assert.Contains(t, recipeList("packages"), "systemd-sysv")
	for _, name := range []string{"packages", "masked"} {
		for _, word := range recipeList(name) {
			assert.Regexp(t, `^[a-z0-9@_.+-]+$`, word)
		}
	}
}
