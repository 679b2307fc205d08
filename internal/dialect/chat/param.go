package chat

// param is a member of a request by name.
type param struct {
	name     string
	rule     rule
	required bool
	// nullable lets a required parameter be null. One that is not required may
	// always be: official clients send null for what was not set.
	nullable bool
}

func (p *param) check(c *cursor) *fault {
	if c.peek() == 'n' {
		c.skip()
		if p.required && !p.nullable {
			return &fault{path: p.name, code: codeMissing, want: p.rule.expected()}
		}
		return nil
	}
	if f := p.rule.check(c); f != nil {
		return f.in(p.name)
	}
	return nil
}

// find returns the index of the parameter of that name, or -1.
func find(params []param, name []byte) int {
	for i := range params {
		if params[i].name == string(name) {
			return i
		}
	}
	return -1
}

// missing refuses the first required parameter that was not seen; seen has the
// bit of every parameter that was.
func missing(params []param, seen uint64) *fault {
	for i := range params {
		if p := &params[i]; p.required && seen&(1<<i) == 0 {
			return &fault{path: p.name, code: codeMissing, want: p.rule.expected()}
		}
	}
	return nil
}
