package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/daemon"
)

// newThaw is for adopt, which starts it.
func newThaw() *cobra.Command {
	return &cobra.Command{
		Use:    daemon.ThawCommand + " PID",
		Short:  "Let a process that adopt has stopped run again if adopt dies",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if pid, err := strconv.Atoi(args[0]); err == nil && pid > 0 {
					return daemon.Thaw(pid)
				}
			}
			return usage(cmd, errors.New("it takes the number of a process"))
		},
	}
}
