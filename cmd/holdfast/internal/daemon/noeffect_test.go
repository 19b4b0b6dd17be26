package daemon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

func TestSettingsWithoutEffectAreNamedOnceTheyAreSet(t *testing.T) {
	defaults := config.DefaultGlobal(nil)
	var book logBook
	warnNoEffect(book.logger(), defaults, defaults)
	require.Empty(t, book.String())

	set := defaults
	set.Keep, set.OnTerm = config.KeepListeners, config.OnTermKeep
	set.ControlSocket, set.AccessLog = "/run/own.sock", true // these work
	warnNoEffect(book.logger(), set, defaults)
	assert.Equal(t, 2, strings.Count(book.String(), "level=WARN"))
	for _, want := range []string{"key=keep value=listeners", "key=on_term value=keep"} {
		assert.Contains(t, book.String(), want)
	}
}
