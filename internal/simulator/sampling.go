package simulator

// sampling says how a protocol names the parameters of generation, and which values
// it accepts. An empty name means that the protocol does not have the parameter.
type sampling struct {
	path                            string // of the object with them; empty for the body
	limit                           bounds // of tokens, an integer without upper bound
	temperature, topP, topK, seed   bounds
	frequency, presence, candidates bounds // without effect
	stops                           string
	mostStops                       int // 0 means no limit
}

// bounds are the least and the greatest value of a parameter.
type bounds struct {
	name      string
	low, high float64
}

// samplings are the parameters by protocol.
var samplings = [protocolCount]sampling{
	chatIndex: { // read a second time, for reports: only numbers are expected
		temperature: bounds{"temperature", -1e9, 1e9}, topP: bounds{"top_p", -1e9, 1e9}, topK: bounds{"top_k", -1e9, 1e9},
		seed: bounds{"seed", -1e18, 1e18},
	},
	messagesIndex: {
		limit: bounds{name: "max_tokens", low: 1}, stops: "stop_sequences",
		temperature: bounds{"temperature", 0, 1}, topP: bounds{"top_p", 0, 1}, topK: bounds{"top_k", 0, 1e9},
	},
	responsesIndex: {
		limit:       bounds{name: "max_output_tokens", low: 16},
		temperature: bounds{"temperature", 0, 2}, topP: bounds{"top_p", 0, 1},
	},
	geminiIndex: {
		path: "generationConfig", limit: bounds{name: "maxOutputTokens", low: 1}, stops: "stopSequences", mostStops: 5,
		// https://ai.google.dev/api/generate-content#generationconfig
		temperature: bounds{"temperature", 0, 2}, topP: bounds{"topP", 0, 1}, topK: bounds{"topK", 1, 1e6},
		seed:      bounds{"seed", -1 << 31, 1<<31 - 1},
		frequency: bounds{"frequencyPenalty", -2, 2}, presence: bounds{"presencePenalty", -2, 2}, candidates: bounds{"candidateCount", 1, 8},
	},
	converseIndex: {
		path: "inferenceConfig", limit: bounds{name: "maxTokens", low: 1}, stops: "stopSequences",
		temperature: bounds{"temperature", 0, 1}, topP: bounds{"topP", 0, 1},
	},
	cohereIndex: {
		limit: bounds{name: "max_tokens"}, stops: "stop_sequences", mostStops: 5,
		temperature: bounds{"temperature", 0, 2}, topP: bounds{"p", 0.01, 0.99}, topK: bounds{"k", 0, 500}, seed: bounds{"seed", 0, 1 << 53},
		frequency: bounds{"frequency_penalty", 0, 1}, presence: bounds{"presence_penalty", 0, 1},
	},
	ollamaIndex: {
		path: "options", limit: bounds{name: "num_predict", low: -2}, stops: "stop",
		temperature: bounds{"temperature", 0, 100}, topP: bounds{"top_p", 0, 1}, topK: bounds{"top_k", 0, 1e6},
		seed: bounds{"seed", -1 << 53, 1 << 53},
	},
}

// readSampling reads the parameters of a protocol from m, the object at its path.
func (c *checker) readSampling(q *turn, m map[string]any, protocol int) {
	s := &samplings[protocol]
	if s.limit.name != "" {
		q.limit = max(0, c.integer(m, s.limit.name, s.path, s.limit.low))
	}
	for _, p := range [...]struct {
		bounds
		into **float64
	}{
		{s.temperature, &q.seen.Temperature}, {s.topP, &q.seen.TopP}, {s.topK, &q.seen.TopK}, {s.seed, &q.seen.Seed},
		{s.frequency, new(*float64)}, {s.presence, new(*float64)}, {s.candidates, new(*float64)},
	} {
		if p.name != "" {
			*p.into = c.number(m, p.name, s.path, p.low, p.high)
		}
	}
	if s.stops == "" {
		return
	}
	q.stops = c.texts(m, s.stops, s.path)
	if s.mostStops > 0 && len(q.stops) > s.mostStops {
		c.fail(at(s.path, s.stops), "at most %d stop sequences are supported", s.mostStops)
	}
}
