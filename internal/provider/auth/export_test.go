package auth

// CachedTokens is the number of tokens that s keeps.
func CachedTokens(s *Signer) int { return len(s.tokens.held) }
