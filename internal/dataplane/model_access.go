package dataplane

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/model/modelnames"
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
func (rs *resolver) checkModels(t *provider.Target, model string) error {
	if t.Models == nil {
		return nil
	}
	if model != "" {
		if err := t.CheckModel(model); err != nil {
			return err
		}
	}
	n := rs.admission.modelsOutsideDoc()
	for _, m := range n.models {
		if err := t.CheckModel(m); err != nil {
			return err
		}
	}
	inPath, err := rs.checkPath(t)
	if err != nil {
		return err
	}
	if n.err != nil && !rs.admission.runsNoModel() {
		return unknownModel(t, n.err.Error())
	}
	if !inPath && !rs.namesModel(model, n) {
		return unknownModel(t, "it names none")
	}
	return nil
}

// allowModel returns the function that checks models in later parts of a form, nil if the
// body is not a form, or if it passes through, t allows all models and no policy depends
// on them. The forms of other routes have a price, so they name one model at most.
func (rs *resolver) allowModel(t *provider.Target) func(model string) error {
	priced := rs.admission.route.body == bodyForm
	if t.Models == nil && !rs.admission.oneModel && !priced || rs.admission.upload == nil || !rs.admission.modelsOutsideDoc().form {
		return nil
	}
	first := rs.admission.request.Model
	return func(model string) error {
		if first == "" && priced {
			first = model
		}
		if err := t.CheckModel(model); err != nil {
			return err
		}
		switch {
		case rs.admission.oneModel && model != rs.admission.request.Model:
			return modelUnknown(fmt.Sprintf("its form names %.100q and %.100q", rs.admission.request.Model, model))
		case priced && model != first:
			return provider.ModelRefused("the model of this request cannot be known: its form names %.100q and %.100q", first, model)
		}
		return nil
	}
}

func unknownModel(t *provider.Target, why string) error {
	return provider.ModelRefused("the provider @%s has a list of models, and the model of this request cannot be known: %s; "+
		"send JSON or a form that names its model early, not compressed; GET /v1/models lists the models", t.Slug, why)
}

// modelsOutsideDoc returns the models in the query, the headers and the body. They
// are determined once, for the first target that asks.
func (a *admission) modelsOutsideDoc() *requestedModels {
	if a.models != nil {
		return a.models
	}
	n := new(requestedModels)
	a.models = n
	n.models, n.err = a.bodyModels(n)
	query, err := modelnames.Query(a.request.Received.Query)
	n.models = slices.Concat(n.models, query, modelnames.Header(a.otherHeaders()))
	if err != nil {
		n.err = err
	}
	return n
}

// otherHeaders returns the headers that may be forwarded to the provider. The
// gateway's own headers never are.
func (a *admission) otherHeaders() http.Header {
	h := make(http.Header)
	for name, values := range a.request.Received.Header {
		if _, foreign := a.cutHeaderPrefix(name); !foreign && !strings.HasPrefix(name, api.HeaderPrefix) {
			h[name] = values
		}
	}
	return h
}

// namesModel reports whether the request names a model, or needs none.
func (rs *resolver) namesModel(model string, n *requestedModels) bool {
	switch {
	case rs.admission.route.body == bodyNone, rs.admission.noModel != nil: // a missing model is checked elsewhere
		return true
	case rs.admission.request.Operation != api.Proxy && rs.admission.request.Received.Upload == nil:
		return model != ""
	case len(n.models) > 0, (rs.admission.request.Received.Doc != nil || rs.admission.upload != nil) && model != "":
		return true
	case rs.admission.request.Received.Method == http.MethodGet || rs.admission.request.Received.Method == http.MethodDelete,
		rs.admission.runsNoModel():
		return true
	case rs.admission.request.Received.Doc != nil:
		models, err := modelnames.JSON(rs.admission.request.Received.Doc.Bytes())
		return err != nil || len(models) > 0 // the pipeline reports what cannot be read
	}
	return false
}

// checkPath reports whether a pass-through path names a model that is allowed.
// It returns an error if it names another model, or none although the provider
// reads it there.
func (rs *resolver) checkPath(t *provider.Target) (named bool, err error) {
	if rs.admission.request.Operation != api.Proxy || rs.admission.request.Received.Method == http.MethodGet {
		return false, nil
	}
	names := modelnames.Path(rs.admission.request.Received.Path)
	if names == nil && t.PathsNameModels() && !rs.admission.runsNoModel() && !readsBody(rs.admission.request.Received.Path) {
		names = modelnames.FullPath(rs.admission.request.Received.Path)
	}
	if i := slices.IndexFunc(names, t.Models.Disables); i >= 0 {
		return false, t.CheckModel(names[i])
	}
	if names != nil && !slices.ContainsFunc(names, t.Models.Allows) {
		return false, unknownModel(t, "its path names none that is enabled")
	}
	return names != nil, nil
}

// readsBody reports whether all providers read the model from the body at this
// path.
func readsBody(path string) bool {
	for _, end := range [...]string{"/chat/completions", "/completions", "/embeddings", "/responses",
		"/messages", "/images/generations", "/rerank"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// modelFree are resources whose requests run no model, by the first segment of
// their path.
var modelFree = map[string]bool{"files": true, "uploads": true, "vector_stores": true, "containers": true,
	"conversations": true, "threads": true}

// runsNoModel reports whether a pass-through request only stores or manages
// objects that later requests, which name their model, refer to.
func (a *admission) runsNoModel() bool {
	if a.request.Operation != api.Proxy {
		return false
	}
	if a.call != nil && a.call.ModelsChecked {
		return true
	}
	if a.route.api == geminiFiles {
		return true
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(a.request.Received.Path, "/"), "/")
	return modelFree[first] && !slices.Contains(strings.Split(rest, "/"), "runs") || strings.HasSuffix(a.request.Received.Path, "/cancel")
}
