package settings

import "errors"

// Responses configures the responses that clients store.
type Responses struct {
	KeepDays int    `json:"keep_days,omitempty" minimum:"0" maximum:"3650" doc:"Age limit of stored responses; default 30"`
	Store    string `json:"store,omitempty" enum:"gateway,provider,off" doc:"Who stores responses: the gateway those that providers do not store, providers only, or off for no records either; default gateway"`
	Unkept   string `json:"unkept,omitempty" enum:"run,refuse" doc:"What happens to requests with store true whose response may not be kept; default run"`
	AtOnce   int    `json:"at_once,omitempty" minimum:"0" maximum:"10000" doc:"Responses in the background that a node makes at a time; default 32"`
}

func (r *Responses) check() *fault {
	switch {
	case r.KeepDays < 0:
		return at(errors.New("must be at least 1"), "responses.keep_days")
	case r.AtOnce < 0:
		return at(errors.New("must be at least 1"), "responses.at_once")
	}
	return nil
}
