package foreign

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"

	"modelgate/internal/provider/table"
)

// channelTypes are the providers of one-api's channels by their numbers. Numbers that are not
// listed have no equivalent.
// https://github.com/songquanpeng/one-api/blob/main/relay/channeltype/define.go
var channelTypes = map[string]string{
	"1": "openai", "3": "azure-openai", "8": "openai-compatible", "14": "anthropic", "15": "baidu-qianfan", "16": "zhipu",
	"17": "dashscope", "18": "xunfei-spark", "19": "ai360", "20": "openrouter", "23": "hunyuan", "24": "google", "25": "moonshot",
	"26": "baichuan", "27": "minimax", "28": "mistral-ai", "29": "groq", "30": "ollama", "31": "lingyi", "32": "stepfun",
	"33": "bedrock", "35": "cohere", "36": "deepseek", "37": "workers-ai", "39": "together-ai", "40": "volcengine", "41": "novita-ai",
	"42": "vertex-ai", "44": "siliconflow", "45": "x-ai", "46": "replicate", "50": "openai-compatible",
}

// unlikeKeys are types whose keys have another form here: pairs, and requests for tokens.
var unlikeKeys = map[string]string{
	"15": "its key was a pair: create an API key of the newer API", "18": "its key was three values: create an API password",
	"23": "its key was three values: create an API key of the newer API", "17": "the addresses differ by region: check custom_host",
}

// readOneAPI reads the channels of one-api, as JSON or as an SQL dump of its table.
func (b *builder) readOneAPI(text []byte) error {
	if len(text) > maxOther {
		return tooLarge(maxOther)
	}
	start := bytes.TrimLeft(text, " \t\r\n\xef\xbb\xbf")
	if len(start) > 0 && (start[0] == '[' || start[0] == '{') {
		return b.readTree(text, parseJSON, func(root entry) error {
			list := root
			for _, name := range []string{"data", "items", "channels"} {
				if e := list.get(name); e.exists() {
					list = e
				}
			}
			for _, name := range []string{"success", "message", "total", "page", "page_size"} {
				root.get(name).readAll()
				list.get(name).readAll()
			}
			return b.addChannels(list.items())
		})
	}
	rows, err := parseInserts(text, "channels")
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New("the file is neither JSON nor an SQL dump with rows of the table channels")
	}
	return b.readTree(nil, func([]byte) (any, error) { return rows, nil }, func(root entry) error { return b.addChannels(root.items()) })
}

// unused are columns that count what a channel did.
var unused = []string{"created_time", "test_time", "response_time", "balance", "balance_updated_time", "used_quota",
	"id", "openai_organization",
	"test_model", "auto_ban", "other_info", "tag", "remark", "channel_info", "setting", "settings"}

// channel is a target of a model with its place among those of the model.
type channel struct {
	priority float64
	target   node
}

func (b *builder) addChannels(list []entry) error {
	models := map[string][]channel{}
	for _, c := range list {
		if err := b.channel(c, models); err != nil {
			return err
		}
	}
	for model, all := range models {
		slices.SortStableFunc(all, func(x, y channel) int { return cmp.Compare(y.priority, x.priority) })
		var tiers []node
		for len(all) > 0 {
			n := slices.IndexFunc(all, func(c channel) bool { return c.priority != all[0].priority })
			if n < 0 {
				n = len(all)
			}
			var targets []node
			for _, c := range all[:n] {
				targets = append(targets, c.target)
			}
			if !slices.ContainsFunc(targets, func(t node) bool { return t.Weight != nil && *t.Weight > 0 }) {
				for i := range targets {
					targets[i].Weight = nil
				}
			}
			tiers, all = append(tiers, balance(targets, "loadbalance")), all[n:]
		}
		b.add(model, fallback(tiers))
	}
	return nil
}

// channel adds the provider of a channel, and its targets to models.
func (b *builder) channel(c entry, models map[string][]channel) error {
	for _, name := range unused {
		c.get(name).readAll()
	}
	kind := c.get("type").text()
	if status := c.get("status").text(); status != "1" && status != "" {
		c.readAll()
		b.note(c.path, Missing, "the channel is off; enable it and import again if you need it")
		return nil
	}
	spec, ok := table.Lookup(channelTypes[kind])
	if !ok {
		c.readAll()
		b.note(c.path, Missing,
			"the gateway has no provider for channels of this type; use openai-compatible with an address (docs/providers.md)")
		return nil
	}
	if text := unlikeKeys[kind]; text != "" {
		b.note(c.path, Changed, text)
	}
	more := b.jsonOf(c.get("config"))
	a := account{name: c.get("name").text(), spec: spec, key: c.get("key"), base: c.get("base_url"), options: map[string]entry{}}
	switch spec.ID {
	case "openai":
		if a.base.text() != "" {
			a.spec, _ = table.Lookup("openai-compatible")
		}
	case "azure-openai":
		a.options["api_version"] = cmpEntry(more.get("api_version"), c.get("other"))
	case "bedrock":
		a.key = entry{}
		a.options["access_key_id"], a.options["secret_access_key"], a.options["region"] = more.get("ak"), more.get("sk"),
			more.get("region")
	case "vertex-ai":
		a.key = more.get("vertex_ai_adc")
		a.options["project_id"], a.options["region"] = more.get("vertex_ai_project_id"), more.get("region")
	case "workers-ai":
		a.options["account_id"] = more.get("user_id")
	}
	slug, err := b.open(a)
	if err != nil || slug == "" {
		return err
	}
	if g := c.get("group").text(); g != "" && g != "default" {
		b.note(c.path+".group", Missing, "groups of users have no equivalent: limit the providers of keys (docs/settings.md#keys)")
	}
	mapping := b.jsonOf(c.get("model_mapping"))
	priority, _ := c.get("priority").number()
	for model := range strings.SplitSeq(c.get("models").text(), ",") {
		if model = strings.TrimSpace(model); model == "" {
			continue
		}
		sent := cmp.Or(mapping.get(model).text(), model)
		t := node{Provider: "@" + slug, Override: map[string]any{"model": sent}}
		if w, ok := c.get("weight").number(); ok {
			t.Weight = &w
		}
		b.lists(slug, sent)
		models[model] = append(models[model], channel{priority, t})
	}
	b.note(c.path, Taken, "clients can use the names of its models as before")
	return nil
}

func cmpEntry(first, second entry) entry {
	if first.text() != "" {
		return first
	}
	return second
}

// jsonOf returns an object that is written as JSON in a text, or is one. What is not read of it
// is not reported.
func (b *builder) jsonOf(e entry) entry {
	e.readAll()
	if e.fields() != nil {
		return entry{e.value, e.path, readPaths{}}
	}
	if e.text() == "" {
		return entry{path: e.path, seen: readPaths{}}
	}
	v, err := parseJSON([]byte(e.text()))
	if err != nil {
		b.note(e.path, Missing, "it is not a JSON object")
	}
	return entry{v, e.path, readPaths{}}
}
