package systemd

import "log/slog"

// priority is the syslog severity of a level, 0 (emergency) to 7 (debug).
func priority(l slog.Level) byte {
	switch {
	case l >= slog.LevelError:
		return 3
	case l >= slog.LevelWarn:
		return 4
	case l > slog.LevelInfo:
		return 5 // notice
	case l == slog.LevelInfo:
		return 6
	}
	return 7
}
