package controlplane

import (
	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/route"
)

// families are the rooms of the control plane, each of which adds its routes.
var families = []func(*route.API){
	configs.Add,
}

// New returns the control plane with every route.
func New(d route.Deps) *route.API {
	a := route.New(d)
	for _, add := range families {
		add(a)
	}
	return a
}
