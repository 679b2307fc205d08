package auth

// Held is the number of tokens that s keeps.
func Held(s *Signer) int { return len(s.tokens.held) }
