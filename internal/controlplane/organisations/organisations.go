// Package organisations is the control plane's family of an organisation's own settings.
//
// It promises that nobody sees or changes what is another's, and that a change
// that is refused leaves nothing behind. Rows are kept by store; what a running
// gateway makes of them is left to the snapshot.
package organisations

import "modelgate/internal/controlplane/route"

// Add adds the routes of the family.
func Add(a *route.API) {}
