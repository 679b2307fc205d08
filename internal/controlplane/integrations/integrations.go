// Package integrations is the control plane's family of integrations, the credentials of providers with their models and workspaces.
//
// It promises that nobody sees or changes what is another's, and that a change
// that is refused leaves nothing behind. Rows are kept by store; what a running
// gateway makes of them is left to the snapshot.
package integrations

import "modelgate/internal/controlplane/route"

// Add adds the routes of the family.
func Add(a *route.API) {}
