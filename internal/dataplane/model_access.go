package dataplane

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/model/modelnames"
	"modelgate/internal/pipeline"
	"modelgate/internal/provider"
)

// requestedModels are the models that a request names outside of a buffered
// JSON document, as far as they are known before it is sent.
type requestedModels struct {
	models []string
	err    error // why the models in the body are unknown
	form   bool  // the body is a form, whose later fields are checked as they pass
}

// checkModels returns an error for a request with models that the list of t
// does not allow. model is the model used for routing, empty if none. Models in
// a JSON document are checked again by the pipeline, after the config has been
// applied.
func (x *exchange) checkModels(t *provider.Target, model string) error {
	if t.Models == nil {
		return nil
	}
	if model != "" && !t.Models.Allows(model) {
		return notEnabled(t, model)
	}
	n := x.modelsOutsideDoc()
	for _, m := range n.models {
		if !t.Models.Allows(m) {
			return notEnabled(t, m)
		}
	}
	inPath, err := x.checkPath(t)
	if err != nil {
		return err
	}
	if n.err != nil && !x.runsNoModel() {
		return unknownModel(t, n.err.Error())
	}
	if !inPath && !x.namesModel(model, n) {
		return unknownModel(t, "it names none")
	}
	return nil
}

// allowModel returns the function that checks models in later parts of a form, nil if the
// body is not a form, or if it passes through, t allows all models and no policy depends
// on them. The forms of other routes have a price, so they name one model at most.
func (x *exchange) allowModel(t *provider.Target) func(model string) error {
	priced := x.route.body == bodyForm
	if t.Models == nil && !x.oneModel && !priced || x.upload == nil || !x.modelsOutsideDoc().form {
		return nil
	}
	first := x.Model
	return func(model string) error {
		if first == "" && priced {
			first = model
		}
		switch {
		case t.Models != nil && !t.Models.Allows(model):
			return notEnabled(t, model)
		case x.oneModel && model != x.Model:
			return modelUnknown(fmt.Sprintf("its form names %.100q and %.100q", x.Model, model))
		case priced && model != first:
			return pipeline.ModelRefused("the model of this request cannot be known: its form names %.100q and %.100q", first, model)
		}
		return nil
	}
}

func notEnabled(t *provider.Target, model string) error {
	return pipeline.ModelRefused("the model %.100q is not enabled for the provider @%s; use one listed by GET /v1/models", model, t.Slug)
}

func unknownModel(t *provider.Target, why string) error {
	return pipeline.ModelRefused("the provider @%s has a list of models, and the model of this request cannot be known: %s; "+
		"send JSON or a form that names its model early, not compressed; GET /v1/models lists the models", t.Slug, why)
}

// modelsOutsideDoc returns the models in the query, the headers and the body. They
// are determined once, for the first target that asks.
func (x *exchange) modelsOutsideDoc() *requestedModels {
	if x.models != nil {
		return x.models
	}
	n := new(requestedModels)
	x.models = n
	n.models, n.err = x.bodyModels(n)
	query, err := modelnames.Query(x.Received.Query)
	n.models = slices.Concat(n.models, query, modelnames.Header(x.otherHeaders()))
	if err != nil {
		n.err = err
	}
	return n
}

// otherHeaders returns the headers that may be forwarded to the provider. The
// gateway's own headers never are.
func (x *exchange) otherHeaders() http.Header {
	h := make(http.Header)
	for name, values := range x.Received.Header {
		if _, foreign := x.cutHeaderPrefix(name); !foreign && !strings.HasPrefix(name, api.HeaderPrefix) {
			h[name] = values
		}
	}
	return h
}

// namesModel reports whether the request names a model, or needs none.
func (x *exchange) namesModel(model string, n *requestedModels) bool {
	switch {
	case x.route.body == bodyNone, x.noModel != nil: // a missing model is checked elsewhere
		return true
	case x.Operation != api.Proxy && x.Received.Upload == nil:
		return model != ""
	case len(n.models) > 0, (x.Received.Doc != nil || x.upload != nil) && model != "":
		return true
	case x.Received.Method == http.MethodGet || x.Received.Method == http.MethodDelete, x.runsNoModel():
		return true
	case x.Received.Doc != nil:
		models, err := modelnames.JSON(x.Received.Doc.Bytes())
		return err != nil || len(models) > 0 // the pipeline reports what cannot be read
	}
	return false
}

// checkPath reports whether a pass-through path names a model that is allowed.
// It returns an error if it names another model, or none although the provider
// reads it there.
func (x *exchange) checkPath(t *provider.Target) (named bool, err error) {
	if x.Operation != api.Proxy || x.Received.Method == http.MethodGet {
		return false, nil
	}
	names := modelnames.Path(x.Received.Path)
	if names == nil && t.PathsNameModels() && !x.runsNoModel() && !readsBody(x.Received.Path) {
		names = modelnames.WholePath(x.Received.Path)
	}
	if i := slices.IndexFunc(names, t.Models.Disables); i >= 0 {
		return false, notEnabled(t, names[i])
	}
	if names != nil && !slices.ContainsFunc(names, t.Models.Allows) {
		return false, unknownModel(t, "its path names none that is enabled")
	}
	return names != nil, nil
}

// readsBody reports whether all providers read the model from the body at this
// path.
func readsBody(path string) bool {
	for _, end := range [...]string{"/chat/completions", "/completions", "/embeddings", "/responses", "/messages", "/images/generations", "/rerank"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// modelFree are resources whose requests run no model, by the first segment of
// their path.
var modelFree = map[string]bool{"files": true, "uploads": true, "vector_stores": true, "containers": true, "conversations": true, "threads": true}

// runsNoModel reports whether a pass-through request only stores or manages
// objects that later requests, which name their model, refer to.
func (x *exchange) runsNoModel() bool {
	if x.Operation != api.Proxy {
		return false
	}
	if x.route.api == geminiFiles {
		return true
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(x.Received.Path, "/"), "/")
	return modelFree[first] && !slices.Contains(strings.Split(rest, "/"), "runs") || strings.HasSuffix(x.Received.Path, "/cancel")
}
