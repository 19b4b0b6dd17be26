// Package systemd is the talk between this process and the service manager that
// runs it: what state the service is in (sd_notify(3)), and where its log goes
// (the journal's native protocol).
//
//	notify, err := systemd.NotifierFromEnv() // once, early in main
//	log := slog.New(systemd.NewLogHandler(systemd.LogOptions{Identifier: "holdfast", Level: &level}))
//	…
//	notify.Ready()
//
// Everything works the same without systemd: a Notifier that is not asked for
// says nothing, and the log is text on stderr. Neither ever blocks for long nor
// ends the process when the other side hangs or is gone.
//
// The package does not take sockets from systemd; package activation does.
package systemd
