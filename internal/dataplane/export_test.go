package dataplane

// RPCError is for tests in other packages.
var RPCError = rpcError
