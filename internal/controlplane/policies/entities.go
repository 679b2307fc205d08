package policies

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/store"
)

// addEntities adds the routes of the counters of policies of a kind.
func (r Routes) addEntities(a *route.API, f route.Family, kind, name string) {
	route.Add(a, f.Route(http.MethodGet, "/{policy}/entities", "list-"+name+"-entities", "read",
		"List the counters of a policy and their usage"), r.listEntities(kind))
	route.Add(a, f.Route(http.MethodPut, "/{policy}/entities/{entity}/reset", "reset-"+name+"-entity",
		"update", "Start a counter of a policy again at zero"), r.resetEntity(kind))
}

// Entity is a counter of a policy.
type Entity struct {
	ID       string     `json:"id"`
	ValueKey string     `json:"value_key" doc:"Keys and values of group_by, such as metadata._user:alice|model:gpt-4o"`
	Current  float64    `json:"current_usage" doc:"In the unit of the policy's limit, in the current window or period"`
	Status   string     `json:"status" doc:"active or exhausted"`
	ResetsAt route.Time `json:"resets_at"`
	counter  string     // period, generation and value key of a usage limit
}

type entitiesInput struct {
	Policy string `path:"policy" format:"uuid"`
	Status string `query:"status" enum:"active,exhausted"`
	Search string `query:"search" maxLength:"255" doc:"Part of the value key"`
	Page   int    `query:"current_page" minimum:"0" maximum:"1000000"`
	Size   int    `query:"page_size" minimum:"1" maximum:"100" default:"100"`
}

func (r Routes) listEntities(kind string) func(context.Context, *route.Caller, *entitiesInput) (*route.List[Entity], error) {
	return func(ctx context.Context, c *route.Caller, in *entitiesInput) (*route.List[Entity], error) {
		p, err := findActive(ctx, c, kind, in.Policy)
		if err != nil {
			return nil, err
		}
		all, err := r.entities(ctx, c, &p)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(e Entity) bool {
			return in.Status != "" && e.Status != in.Status || !strings.Contains(e.ValueKey, in.Search)
		})
		return route.ListOf(route.Cut(all, in.Page, in.Size), len(all)), nil
	}
}

// entities returns the counters of a policy in the order of their value keys.
func (r Routes) entities(ctx context.Context, c *route.Caller, p *store.Policy) (list []Entity, err error) {
	if p.Kind == store.UsagePolicy {
		list, err = usages(ctx, c, p)
	} else {
		list, err = r.rates(ctx, c.Now, p.ID)
	}
	slices.SortFunc(list, func(x, y Entity) int { return cmp.Compare(x.ValueKey, y.ValueKey) })
	return list, err
}

// readAtOnce is how many counters are read at once.
const readAtOnce = 500

// rates returns the counters of a rate limit that this gateway knows of.
func (r Routes) rates(ctx context.Context, now time.Time, id string) ([]Entity, error) {
	if r.Policies == nil {
		return nil, nil
	}
	var list []Entity
	var known []*quota.Limit
	for key, l := range r.Policies().Limits(id, now) {
		list = append(list, Entity{ID: policy.EntityID(key), ValueKey: key, Status: store.Active})
		known = append(known, l)
	}
	for from := 0; r.Counters != nil && from < len(known); from += readAtOnce {
		part := known[from:min(from+readAtOnce, len(known))]
		states, err := r.Counters.Read(ctx, now, part)
		if err != nil {
			return nil, err
		}
		for i, s := range states {
			e := &list[from+i]
			e.Current, e.ResetsAt = float64(s.Used+s.Held), route.Time(s.Reset)
			if s.Left(part[i]) == 0 {
				e.Status = store.Exhausted
			}
		}
	}
	return list, nil
}

// usages returns the counters of a usage limit in the current period.
func usages(ctx context.Context, c *route.Caller, p *store.Policy) ([]Entity, error) {
	spent, err := c.DB().PolicySpending(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	generations, err := c.DB().ResetsOfPolicy(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	rule := p.Rule(generations)
	period, end := rule.Period.At(c.Now)
	byKey := make(map[string]Entity)
	for counter, s := range spent {
		parts := strings.SplitN(counter, "/", 3)
		if len(parts) != 3 || parts[0] != period {
			continue
		}
		key := parts[2]
		id := policy.EntityID(key)
		e := Entity{ID: id, ValueKey: key, Status: store.Active, ResetsAt: route.Time(end), counter: counter}
		if parts[1] != strconv.FormatInt(generations[id], 10) { // counted before a reset
			if _, known := byKey[key]; !known {
				byKey[key] = e
			}
			continue
		}
		e.Current = p.Used(s)
		if p.Reaches(e.Current, p.Settings.Value.String()) {
			e.Status = store.Exhausted
		}
		byKey[key] = e
	}
	list := make([]Entity, 0, len(byKey))
	for _, e := range byKey {
		list = append(list, e)
	}
	return list, nil
}

type resetInput struct {
	Policy string `path:"policy" format:"uuid"`
	Entity string `path:"entity" maxLength:"64"`
}

func (r Routes) resetEntity(kind string) func(context.Context, *route.Caller, *resetInput) (*route.Empty, error) {
	return func(ctx context.Context, c *route.Caller, in *resetInput) (*route.Empty, error) {
		p, err := findActive(ctx, c, kind, in.Policy)
		if err != nil {
			return nil, err
		}
		if err := c.AwaitSpending(ctx); err != nil {
			return nil, err
		}
		all, err := r.entities(ctx, c, &p)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(e Entity) bool { return e.ID == in.Entity }) {
			return nil, route.NotFound("entity", "counter", in.Entity)
		}
		return &route.Empty{}, change(ctx, c, &p, &p, func(tx *store.Tx) error {
			return tx.ResetPolicyEntity(ctx, p.ID, in.Entity, c.Now)
		})
	}
}
