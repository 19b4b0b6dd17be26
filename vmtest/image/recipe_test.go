package image

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachReleaseHasAnImageOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Releases {
		seen[hash(r)] = true
	}
	assert.Len(t, seen, len(Releases))
}

func TestOtherStepsMakeAnotherImage(t *testing.T) {
	hashed := map[string]string{}
	for path, content := range recipeFiles(".") {
		hashed[path] = string(content)
	}
	for _, steps := range []string{"build.go", "modules.go"} {
		content, err := os.ReadFile(steps)
		require.NoError(t, err)
		assert.Equal(t, string(content), hashed[steps])
	}
	assert.Contains(t, hashed, "recipe/packages")
}

func TestRecipeListsHaveNoComments(t *testing.T) {
	assert.Contains(t, recipeList("packages"), "systemd-sysv")
	for _, name := range []string{"packages", "masked"} {
		for _, word := range recipeList(name) {
			assert.Regexp(t, `^[a-z0-9@_.+-]+$`, word)
		}
	}
}
