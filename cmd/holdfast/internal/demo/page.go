package demo

import (
	"context"
	_ "embed"
	"html/template"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	texttemplate "text/template"
	"time"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.txt
	pageText string

	// Two faces of one page: for a browser and for curl.
	htmlPage = template.Must(template.New("page.html").Parse(pageHTML))
	textPage = texttemplate.Must(texttemplate.New("page.txt").Parse(pageText))
)

// view is what the page shows.
type view struct {
	Client string // where the connection comes from, which is Holdfast
	Server string // this server's end of it
	Host   string // what the client asked for, Holdfast's listener
	Count  int64  // requests on this connection so far
	Uptime time.Duration
}

func handler(started time.Time) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stream", stream)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		show(w, r, started)
	})
	return mux
}

func show(w http.ResponseWriter, r *http.Request, started time.Time) {
	v := view{
		Client: r.RemoteAddr,
		Host:   r.Host,
		Count:  requests(r.Context()).Add(1),
		Uptime: time.Since(started).Round(time.Second),
	}
	if server, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		v.Server = server.String()
	}
	var page interface {
		Execute(w io.Writer, data any) error
	} = textPage
	kind := "text/plain"
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		page, kind = htmlPage, "text/html"
	}
	w.Header().Set("Content-Type", kind+"; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_ = page.Execute(w, v) // a failed write: the client has left
}

type requestsKey struct{}

// countRequests gives each connection a counter.
func countRequests(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, requestsKey{}, new(atomic.Int64))
}

func requests(ctx context.Context) *atomic.Int64 {
	return ctx.Value(requestsKey{}).(*atomic.Int64)
}
