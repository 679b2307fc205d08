package config

// Inherit returns child with the settings that it inherits from parent, which
// must include the parent's own inherited settings. A nil parent adds nothing.
//
// A setting of the child replaces the parent's setting; only override_params
// and default_params are merged, and the child wins. Never inherited: name,
// provider, credentials and other provider options, weight, on_status_codes,
// prompt_id, strategy and targets. Neither argument is changed; the result
// shares their contents.
func Inherit(parent, child *Config) *Config {
	c := *child
	c.Breaker = or(c.Breaker, child.strategyBreaker())
	if parent == nil {
		return &c
	}
	c.OverrideParams = parent.OverrideParams.Merge(c.OverrideParams)
	c.DefaultParams = parent.DefaultParams.Merge(c.DefaultParams)
	c.DropParams = orList(c.DropParams, parent.DropParams)
	c.ForwardHeaders = orList(c.ForwardHeaders, parent.ForwardHeaders)
	if c.RequestTimeout == 0 {
		c.RequestTimeout = parent.RequestTimeout
	}
	if c.CustomHost == "" {
		c.CustomHost = parent.CustomHost
	}
	if c.OnUnsupported == "" {
		c.OnUnsupported = parent.OnUnsupported
	}
	if c.ResponseModel == "" {
		c.ResponseModel = parent.ResponseModel
	}
	c.Strict = or(c.Strict, parent.Strict)
	c.Cache = or(c.Cache, parent.Cache)
	c.Retry = or(c.Retry, parent.Retry)
	c.Breaker = or(c.Breaker, or(parent.Breaker, parent.strategyBreaker()))
	c.StreamContinuation = or(c.StreamContinuation, parent.StreamContinuation)
	c.PromptCache = or(c.PromptCache, parent.PromptCache)
	c.Hedge = or(c.Hedge, parent.Hedge)
	c.inheritChecks(parent)
	return &c
}

func (c *Config) inheritChecks(parent *Config) {
	c.BeforeHooks = orList(c.BeforeHooks, parent.BeforeHooks)
	c.AfterHooks = orList(c.AfterHooks, parent.AfterHooks)
	c.InputGuardrails = orList(c.InputGuardrails, parent.InputGuardrails)
	c.OutputGuardrails = orList(c.OutputGuardrails, parent.OutputGuardrails)
	c.InputMutators = orList(c.InputMutators, parent.InputMutators)
	c.OutputMutators = orList(c.OutputMutators, parent.OutputMutators)
}

func (c *Config) strategyBreaker() *Breaker {
	if c.Strategy == nil {
		return nil
	}
	return c.Strategy.Breaker
}

// or returns own, or theirs if own is not set.
func or[T any](own, theirs *T) *T {
	if own != nil {
		return own
	}
	return theirs
}

// orList does the same for lists: a list that is set to empty is set.
func orList[T any](own, theirs []T) []T {
	if own != nil {
		return own
	}
	return theirs
}
