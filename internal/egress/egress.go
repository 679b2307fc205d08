// Package egress says where requests may be sent.
//
// [Hosts] are patterns of hosts, of which a secret reference has some and a
// [Policy] others. It guarantees that an address that is not clearly listed is
// not allowed. It does not check whether an address is private (see upstream), nor
// whose policy binds a request (see snapshot).
package egress
