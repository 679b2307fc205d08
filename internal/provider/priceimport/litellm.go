package priceimport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/model/catalog"
)

// liteLLM is an entry of LiteLLM's table of models. Its prices are dollars.
// https://docs.litellm.ai/docs/proxy/custom_pricing
type liteLLM struct {
	Provider string `json:"litellm_provider"`
	Mode     string

	Input        *float64 `json:"input_cost_per_token"`
	Output       *float64 `json:"output_cost_per_token"`
	Cached       *float64 `json:"cache_read_input_token_cost"`
	Write5m      *float64 `json:"cache_creation_input_token_cost"`
	Write1h      *float64 `json:"cache_creation_input_token_cost_above_1hr"`
	Reasoning    *float64 `json:"output_cost_per_reasoning_token"`
	InputAudio   *float64 `json:"input_cost_per_audio_token"`
	OutputAudio  *float64 `json:"output_cost_per_audio_token"`
	InputImage   *float64 `json:"input_cost_per_image_token"`
	OutputImage  *float64 `json:"output_cost_per_image_token"`
	BatchInput   *float64 `json:"input_cost_per_token_batches"`
	BatchOutput  *float64 `json:"output_cost_per_token_batches"`
	FlexInput    *float64 `json:"input_cost_per_token_flex"`
	FlexOutput   *float64 `json:"output_cost_per_token_flex"`
	FlexCached   *float64 `json:"cache_read_input_token_cost_flex"`
	FastInput    *float64 `json:"input_cost_per_token_priority"`
	FastOutput   *float64 `json:"output_cost_per_token_priority"`
	FastCached   *float64 `json:"cache_read_input_token_cost_priority"`
	PerQuery     *float64 `json:"input_cost_per_query"`
	PerRequest   *float64 `json:"input_cost_per_request"`
	PerImage     *float64 `json:"output_cost_per_image"`
	ImageInput   *float64 `json:"input_cost_per_image"`
	PerPixel     *float64 `json:"input_cost_per_pixel"`
	PerPixelOut  *float64 `json:"output_cost_per_pixel"`
	PerSecond    *float64 `json:"input_cost_per_second"`
	PerSecondOut *float64 `json:"output_cost_per_second"`
	PerCharacter *float64 `json:"input_cost_per_character"`
	Tiers        []struct {
		Input  *float64  `json:"input_cost_per_token"`
		Output *float64  `json:"output_cost_per_token"`
		Cached *float64  `json:"cache_read_input_token_cost"`
		Range  []float64 `json:"range"`
	} `json:"tiered_pricing"`
}

// liteLLMModes are the kinds of models whose prices the book can hold.
var liteLLMModes = []string{"chat", "completion", "embedding", "responses", "rerank", "image_generation", "image_edit",
	"audio_transcription", "audio_speech", "realtime", "moderation"}

func (t *Table) readLiteLLM(data []byte) error {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return fmt.Errorf("reading the table: %w", err)
	}
	rows := make(map[[2]string]*catalog.Price)
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var e liteLLM
		if err := json.Unmarshal(entries[name], &e); err != nil {
			t.skip(name, "an unexpected form")
			continue
		}
		p, reason := e.price(name, entries[name])
		if reason != "" {
			t.skip(name, reason)
			continue
		}
		key := [2]string{p.Provider, p.Model}
		if before := rows[key]; before != nil {
			if !combineImages(before, p) {
				t.skip(name, "another entry is for the same model")
			}
			continue
		}
		rows[key] = p
	}
	for _, p := range rows {
		t.Rows = append(t.Rows, *p)
	}
	return nil
}

// price returns the row of an entry, or why it gives none.
func (e *liteLLM) price(name string, raw json.RawMessage) (p *catalog.Price, reason string) {
	from, ok := providersOf("litellm")[e.Provider]
	switch {
	case !ok:
		return nil, "the provider is not in the table"
	case !slices.Contains(liteLLMModes, e.Mode):
		return nil, "models of this kind have no price in the book: " + e.Mode
	}
	model, variant, pixels := liteLLMModel(name, from)
	if model == "" {
		return nil, "prices of a region, or of a group of models"
	}
	p = &catalog.Price{Provider: from.id, Model: model}
	standard := tokenPrices{e.Input, e.Output, positive(e.Cached), positive(e.Write5m), positive(e.Write1h)}
	if len(e.Tiers) > 0 {
		if reason := e.readTiers(p, &standard); reason != "" {
			return nil, reason
		}
	}
	if standard.output == nil {
		standard.output = positive(e.OutputImage)
	}
	standard.dropWrites()
	if err := readLong(p, raw); err != nil {
		return nil, err.Error()
	}
	if standard.input != nil && *standard.input == 0 && (standard.output == nil || *standard.output == 0) {
		standard.input, standard.output = nil, nil // LiteLLM writes zero for unknown
	}
	var err error
	p.Rates, p.NoInput, p.NoOutput, err = standard.rates(map[catalog.Kind]*float64{
		catalog.Reasoning: positive(e.Reasoning), catalog.InputAudio: positive(e.InputAudio), catalog.OutputAudio: positive(e.OutputAudio),
		catalog.InputImage: positive(e.InputImage), catalog.OutputImage: positive(e.OutputImage),
	})
	if err != nil {
		return nil, err.Error()
	}
	if e.Mode == "embedding" || e.Mode == "moderation" {
		p.NoOutput = p.NoInput
	}
	p.Batch = percentOf(standard, tokenPrices{input: e.BatchInput, output: e.BatchOutput})
	p.Flex = percentOf(standard, tokenPrices{input: e.FlexInput, output: e.FlexOutput, cached: e.FlexCached})
	p.Priority = percentOf(standard, tokenPrices{input: e.FastInput, output: e.FastOutput, cached: e.FastCached})
	if p.Batch > 100 || p.Flex > 100 {
		return nil, "a batch costs more than the standard tier"
	}
	if reason := e.readUnits(p, variant, pixels); reason != "" {
		return nil, reason
	}
	if p.NoInput && p.NoOutput && p.Units == nil && p.Request == 0 {
		return nil, "no price"
	}
	return p, ""
}

func positive(price *float64) *float64 {
	if price == nil || *price == 0 {
		return nil
	}
	return price
}

// readTiers reads prices by length: of short requests into standard, of long ones
// into p.
func (e *liteLLM) readTiers(p *catalog.Price, standard *tokenPrices) (reason string) {
	first := e.Tiers[0]
	if first.Input == nil {
		return "no price"
	}
	*standard = tokenPrices{input: first.Input, output: first.Output, cached: first.Cached}
	if len(e.Tiers) == 1 {
		return ""
	}
	second := e.Tiers[1]
	if len(e.Tiers) > 2 || len(second.Range) != 2 || second.Range[0] < 1 || second.Range[0] > 1e9 {
		return "more than two prices by length"
	}
	long := tokenPrices{input: second.Input, output: second.Output, cached: second.Cached}
	var err error
	var noInput bool
	if p.Long, noInput, _, err = long.rates(nil); err != nil || noInput {
		return "no price of long requests"
	}
	p.Above = int64(second.Range[0])
	return ""
}

// maxLong is the limit of the length from which a request is long, in thousands of tokens.
const maxLong = 1_000_000

// readLong reads the prices of long requests, whose fields are named by their
// length.
func readLong(p *catalog.Price, raw json.RawMessage) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	const prefix = "input_cost_per_token_above_"
	for name := range fields {
		length, ok := strings.CutPrefix(name, prefix)
		length, only := strings.CutSuffix(length, "k_tokens")
		n, err := strconv.Atoi(length)
		if !ok || !only || err != nil {
			continue
		}
		if n < 1 || n > maxLong {
			return fmt.Errorf("a price of requests of %d thousand tokens", n)
		}
		var long tokenPrices
		price := func(name string) *float64 {
			var f *float64
			if json.Unmarshal(fields[name], &f) != nil {
				return nil
			}
			return positive(f)
		}
		suffix := "_above_" + length + "k_tokens"
		long.input, long.output = price("input_cost_per_token"+suffix), price("output_cost_per_token"+suffix)
		long.cached, long.write5m = price("cache_read_input_token_cost"+suffix), price("cache_creation_input_token_cost"+suffix)
		long.write1h = price("cache_creation_input_token_cost_above_1hr" + suffix)
		if long.input == nil || long.output == nil || p.Above != 0 && p.Above < int64(n)*1000 {
			continue
		}
		long.dropWrites()
		if p.Long, _, _, err = long.rates(nil); err != nil {
			return err
		}
		p.Above = int64(n) * 1000
	}
	return nil
}

// readUnits reads what is not sold by tokens.
func (e *liteLLM) readUnits(p *catalog.Price, variant string, pixels float64) (reason string) {
	var u catalog.UnitPrices
	set := func(into *catalog.NanoDollars, dollars float64) {
		n, err := nanoDollars(dollars)
		if err != nil {
			reason = err.Error()
		}
		*into = n
	}
	if e.Mode == "image_generation" || e.Mode == "image_edit" {
		var price float64
		switch {
		case positive(e.PerImage) != nil:
			price = *e.PerImage
		case e.OutputImage == nil && e.Output == nil && positive(e.ImageInput) != nil: // the name that LiteLLM used before
			price = *e.ImageInput
		case positive(e.PerPixel) != nil && pixels > 0:
			price = *e.PerPixel * pixels
		case positive(e.PerPixelOut) != nil && pixels > 0:
			price = *e.PerPixelOut * pixels
		}
		if price > 0 && (p.NoOutput || e.OutputImage == nil) {
			var n catalog.NanoDollars
			set(&n, price)
			n = (n + 5000) / 10_000 * 10_000 // the noise of prices per pixel
			u.Images = map[string]catalog.NanoDollars{variant: n}
		}
	}
	if e.Mode == "audio_transcription" && p.NoInput {
		if s := cmp.Or(positive(e.PerSecond), positive(e.PerSecondOut)); s != nil {
			set(&u.Second, *s)
		}
	}
	if e.Mode == "audio_speech" && p.NoInput && positive(e.PerCharacter) != nil {
		rate, err := catalog.PerMillion(*e.PerCharacter * 1e6)
		if err != nil {
			return err.Error()
		}
		u.Character = rate
	}
	if u.Images != nil || u.Second > 0 || u.Character > 0 {
		p.Units = &u
	}
	if request := cmp.Or(positive(e.PerQuery), positive(e.PerRequest)); request != nil {
		set(&p.Request, *request)
		if p.NoInput && p.NoOutput && e.Mode == "rerank" { // searches are all that is billed
			p.NoInput, p.NoOutput = false, false
		}
	}
	return reason
}

// variants matches what LiteLLM writes before the names of models that generate
// images: quality, size and steps.
var variants = regexp.MustCompile(`^(?:(standard|hd|low|medium|high|auto)/)?(\d+)-x-(\d+)/(?:(?:max|\d+)-steps/)?`)

// liteLLMModel returns the name of the model, empty if the entry is not for one,
// with its quality and size and the number of pixels.
func liteLLMModel(name string, from tableProvider) (model, variant string, pixels float64) {
	name = strings.TrimPrefix(name, from.prefix+"/")
	quality := ""
	if first, rest, ok := strings.Cut(name, "/"); ok && variants.MatchString(rest) && slices.Contains([]string{"hd", "standard"}, first) {
		quality, name = first, rest
	}
	if m := variants.FindStringSubmatch(name); m != nil {
		name = name[len(m[0]):]
		x, _ := strconv.ParseFloat(m[2], 64)
		y, _ := strconv.ParseFloat(m[3], 64)
		pixels = x * y
		variant = m[2] + "x" + m[3]
		if quality = cmp.Or(quality, m[1]); quality != "" {
			variant = quality + "/" + variant
		}
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, from.prefix+"/"), "speech/")
	if from.onePart && strings.Contains(name, "/") || groups.MatchString(name) || strings.Contains(name, "*") {
		return "", "", 0
	}
	return name, variant, pixels
}

// groups matches names of groups of models by size.
var groups = regexp.MustCompile(`^(fireworks-ai|together-ai)-|-mp$|^ranking/|^ft:|^cf/`)

// combineImages adds the image prices of q, an entry for the same model, to p.
func combineImages(p, q *catalog.Price) bool {
	if p.Units == nil || q.Units == nil || p.Units.Images == nil || q.Units.Images == nil {
		return false
	}
	for name, price := range q.Units.Images {
		if _, twice := p.Units.Images[name]; !twice {
			p.Units.Images[name] = price
		}
	}
	return true
}
