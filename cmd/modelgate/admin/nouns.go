package admin

import "slices"

// nouns are all nouns, in the order of the help.
var nouns = slices.Concat(accessNouns, identityNouns, routingNouns, toolNouns, recordNouns)

// Columns that several verbs have.
const (
	entityColumns     = "VALUE=value_key USED=current_usage RESETS=resets_at:time STATUS=status | ID=id"
	capabilityColumns = "NAME=name TYPE=type ENABLED=enabled STATE=state PRICE=price_per_call:usd | DIGEST=digest"
	grantColumns      = "WORKSPACE=id:workspaces ENABLED=enabled STATUS=status BUDGET=usage_limits.credit_limit:limit RATES=rate_limits"
	trialColumns      = "STEP=step STATE=state TOOK=ms:ms MESSAGE=message"
	modelColumns      = "SLUG=slug NAME=name ENABLED=enabled CUSTOM=is_custom"
)
