package control

import (
	"encoding/json"
	"errors"
	"net/http"
)

// router finds the one route of a path. It is exact: http.ServeMux would answer
// in HTML and redirect to cleaned paths.
type router map[string]route

type route struct {
	method string
	handle http.HandlerFunc
}

// routes lists all that a client can ask for. The version in a path changes
// only if an old client could misread the answer.
func routes(instance Instance) router {
	return router{
		statusPath:  {http.MethodGet, serveStatus(instance)},
		reloadPath:  {http.MethodPost, serveChange(instance.Reload)},
		upgradePath: {http.MethodPost, serveChange(instance.Upgrade)},
		drainPath:   {http.MethodPost, serveChange(instance.Drain)},
	}
}

// failure is the body of every answer that is not a success.
type failure struct {
	Error    string    `json:"error"`
	Problems []Problem `json:"problems,omitempty"`
}

// ServeHTTP implements http.Handler.
func (r router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	found, ok := r[req.URL.Path]
	switch {
	case !ok:
		writeJSON(w, http.StatusNotFound, failure{Error: "unknown route"})
	case req.Method != found.method:
		w.Header().Set("Allow", found.method)
		writeJSON(w, http.StatusMethodNotAllowed, failure{Error: "wrong method, this route takes " + found.method})
	default:
		found.handle(w, req)
	}
}

// writeRefusal says why the instance has not done a thing.
func writeRefusal(w http.ResponseWriter, err error) {
	var refused *RefusedError
	if errors.As(err, &refused) {
		writeJSON(w, http.StatusConflict, failure{refused.Reason, refused.Problems})
		return
	}
	writeJSON(w, http.StatusConflict, failure{Error: err.Error()})
}

// writeJSON sends answer, a type of this package or of status, which always
// marshals. A failed write needs no report: the client has left.
func writeJSON(w http.ResponseWriter, code int, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
}
