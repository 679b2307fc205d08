package simulator

import (
	"net/http"
	"slices"
	"strings"
)

// serveModels answers GET /models.
func serveModels(x *exchange) {
	if !x.begin(nil) {
		return
	}
	x.out = append(x.out[:0], `{"object":"list","data":[`...)
	for i, name := range x.sim.opts.Models {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = appendModel(x.out, name)
	}
	x.out = append(x.out, `]}`...)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// serveModel answers GET /models/{id} for listed models.
func serveModel(x *exchange) {
	if !x.begin(nil) {
		return
	}
	name := strings.TrimPrefix(withoutVersion(x.r.URL.Path), "/models/")
	if !slices.Contains(x.sim.opts.Models, name) {
		x.refuse(http.StatusNotFound, unknownModel)
		return
	}
	x.out = appendModel(x.out[:0], name)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

func appendModel(dst []byte, name string) []byte {
	dst = appendRaw(append(dst, `{"id":"`...), name)
	return append(dst, `","object":"model","created":`+created+`,"owned_by":"simulator"}`...)
}
