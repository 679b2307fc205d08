package simulator

import (
	"net/http"
	"slices"
	"strings"
)

// A handler answers one operation.
type handler func(x *exchange)

type route struct{ method, path string }

// routes are the operations of every dialect; paths are without /v1. A dialect
// consists of its files and its lines here.
type routes struct {
	table
	anthropic table            // requests with the header anthropic-version only
	google    table            // requests with the header x-goog-api-client only
	vendors   map[string]table // paths that begin with the name of the vendor only
	ending    []ending
}

// A table has operations by the beginning of their path or by all of it.
type table struct {
	exact  map[route]service
	prefix map[route]service // of one or two segments, with the slash after them
}

// maxPrefix is the number of segments of the longest prefix in a table.
const maxPrefix = 2

// find returns the zero service for an unknown path.
func (t *table) find(method, path string) service {
	if s := t.exact[route{method, path}]; s.serve != nil {
		return s
	}
	for i, segments := 1, 0; i < len(path) && segments < maxPrefix; i++ {
		if path[i] != '/' {
			continue
		}
		segments++
		if s := t.prefix[route{method, path[:i+1]}]; s.serve != nil {
			return s
		}
	}
	return service{}
}

// An ending is the end of paths of operations that begin with a model, a
// project or a region.
type ending struct {
	suffix string
	service
}

func newRoutes() routes {
	const get, post, put, remove = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return routes{
		table: table{exact: map[route]service{
			{post, "/chat/completions"}:     {serveChat, nil},
			{post, "/completions"}:          {serveCompletion, nil},
			{post, "/embeddings"}:           {serveEmbeddings, nil},
			{post, "/images/generations"}:   {serveImages, nil},
			{post, "/audio/speech"}:         {serveSpeech, nil},
			{post, "/audio/transcriptions"}: {serveTranscript, nil},
			{post, "/audio/translations"}:   {serveTranscript, nil},
			{post, "/moderations"}:          {serveModerations, nil},
			{get, "/models"}:                {serveModels, nil},
			{post, "/files"}:                {serveUpload, nil},
			{get, "/files"}:                 {serveFiles, nil},
			{post, "/uploads"}:              {serveUploadCreate, nil},
			{post, "/batch/jobs"}:           {serveMistralCreate, nil},
			{get, "/batch/jobs"}:            {serveMistralBatches, nil},
			{post, "/batches"}:              {serveBatchCreate, nil},
			{post, "/fine_tuning/jobs"}:     {serveTuningCreate, nil},
			{get, "/fine_tuning/jobs"}:      {serveTuningJobs, nil},
			{get, "/batches"}:               {serveBatches, nil},

			{post, "/messages"}:               {serveMessages, &messagesProtocol},
			{post, "/messages/batches"}:       {serveMessageBatchCreate, &messagesProtocol},
			{get, "/messages/batches"}:        {serveMessageBatches, &messagesProtocol},
			{post, "/messages/count_tokens"}:  {serveMessagesCount, &messagesProtocol},
			{post, "/responses"}:              {serveResponses, &responsesProtocol},
			{post, "/responses/input_tokens"}: {serveInputTokens, &responsesProtocol},
			{post, "/responses/compact"}:      {serveCompact, &responsesProtocol},
			{post, "/conversations"}:          {serveConversationCreate, &responsesProtocol},
			{post, "/v2/chat"}:                {serveCohere, &cohereProtocol},
			{post, "/v2/embed"}:               {serveCohereEmbed, &cohereProtocol},
			{post, "/v2/rerank"}:              {serveCohereRerank, &cohereProtocol},
			{post, "/api/chat"}:               {serveOllama, &ollamaProtocol},
			{post, "/api/embed"}:              {serveOllamaEmbed, &ollamaProtocol},

			{post, "/upload/v1beta/files"}:         {serveGeminiUpload, &geminiProtocol},
			{post, "/upload/v1/files"}:             {serveGeminiUpload, &geminiProtocol},
			{post, "/model-invocation-job"}:        {serveInvocationCreate, &converseProtocol},
			{get, "/model-invocation-jobs"}:        {serveInvocationJobs, &converseProtocol},
			{post, "/model-customization-jobs"}:    {serveCustomizationCreate, &converseProtocol},
			{get, "/model-customization-jobs"}:     {serveCustomizationJobs, &converseProtocol},
			{post, "/datasets"}:                    {serveDatasetCreate, &cohereProtocol},
			{get, "/datasets"}:                     {serveDatasets, &cohereProtocol},
			{post, "/embed-jobs"}:                  {serveEmbedJobCreate, &cohereProtocol},
			{get, "/embed-jobs"}:                   {serveEmbedJobs, &cohereProtocol},
			{post, "/finetuning/finetuned-models"}: {serveFinetunedCreate, &cohereProtocol},
			{get, "/finetuning/finetuned-models"}:  {serveFinetunedModels, &cohereProtocol},
			{get, "/v1beta/batches"}:               {serveGeminiBatches, &geminiProtocol},
			{get, "/v1beta/files"}:                 {serveGeminiFiles, &geminiProtocol},
		}, prefix: map[route]service{
			{get, "/models/"}:                         {serveModel, nil},
			{get, "/files/"}:                          {serveFile, nil},
			{remove, "/files/"}:                       {serveFileDelete, nil},
			{get, "/fine_tuning/jobs/"}:               {serveTuningJob, nil},
			{post, "/fine_tuning/jobs/"}:              {serveTuningJob, nil},
			{get, "/messages/batches/"}:               {serveMessageBatch, &messagesProtocol},
			{post, "/messages/batches/"}:              {serveMessageBatch, &messagesProtocol},
			{remove, "/messages/batches/"}:            {serveMessageBatch, &messagesProtocol},
			{post, "/uploads/"}:                       {serveUploadStep, nil},
			{get, "/batch/jobs/"}:                     {serveMistralBatch, nil},
			{post, "/batch/jobs/"}:                    {serveMistralBatch, nil},
			{remove, "/batch/jobs/"}:                  {serveMistralBatch, nil},
			{get, "/responses/"}:                      {serveStoredResponse, &responsesProtocol},
			{post, "/responses/"}:                     {serveStoredResponse, &responsesProtocol},
			{remove, "/responses/"}:                   {serveStoredResponse, &responsesProtocol},
			{get, "/conversations/"}:                  {serveConversation, &responsesProtocol},
			{post, "/conversations/"}:                 {serveConversation, &responsesProtocol},
			{remove, "/conversations/"}:               {serveConversation, &responsesProtocol},
			{get, "/batches/"}:                        {serveBatch, nil},
			{post, "/batches/"}:                       {serveBatch, nil},
			{get, "/download/v1beta/"}:                {serveGeminiFile, &geminiProtocol},
			{get, "/model-invocation-job/"}:           {serveInvocationJob, &converseProtocol},
			{post, "/model-invocation-job/"}:          {serveInvocationJob, &converseProtocol},
			{get, "/model-customization-jobs/"}:       {serveCustomizationJob, &converseProtocol},
			{post, "/model-customization-jobs/"}:      {serveCustomizationJob, &converseProtocol},
			{get, "/datasets/"}:                       {serveDataset, &cohereProtocol},
			{remove, "/datasets/"}:                    {serveDataset, &cohereProtocol},
			{get, "/embed-jobs/"}:                     {serveEmbedJob, &cohereProtocol},
			{post, "/embed-jobs/"}:                    {serveEmbedJob, &cohereProtocol},
			{get, "/finetuning/finetuned-models/"}:    {serveFinetunedModel, &cohereProtocol},
			{remove, "/finetuning/finetuned-models/"}: {serveFinetunedModel, &cohereProtocol},
			{get, "/accounts/"}:                       {serveFireworks, &fireworksProtocol},
			{post, "/accounts/"}:                      {serveFireworks, &fireworksProtocol},
			{put, "/accounts/"}:                       {serveFireworks, &fireworksProtocol},
			{remove, "/accounts/"}:                    {serveFireworks, &fireworksProtocol},
			{get, "/v1beta/batches/"}:                 {serveGeminiBatchJob, &geminiProtocol},
			{post, "/v1beta/batches/"}:                {serveGeminiBatchJob, &geminiProtocol},
			{remove, "/v1beta/batches/"}:              {serveGeminiBatchJob, &geminiProtocol},
			{get, "/v1beta/files/"}:                   {serveGeminiFile, &geminiProtocol},
			{remove, "/v1beta/files/"}:                {serveGeminiFileDelete, &geminiProtocol},
		}},
		anthropic: table{exact: map[route]service{
			{post, "/files"}: {serveMessagesUpload, &messagesProtocol},
			{get, "/files"}:  {serveMessagesFiles, &messagesProtocol},
		}, prefix: map[route]service{
			{get, "/files/"}:    {serveMessagesFile, &messagesProtocol},
			{remove, "/files/"}: {serveMessagesFileDelete, &messagesProtocol},
		}},
		google: table{exact: map[route]service{
			{get, "/files"}:   {serveGeminiFiles, &geminiProtocol},
			{get, "/batches"}: {serveGeminiBatches, &geminiProtocol},
		}, prefix: map[route]service{
			{get, "/batches/"}:    {serveGeminiBatchJob, &geminiProtocol},
			{post, "/batches/"}:   {serveGeminiBatchJob, &geminiProtocol},
			{remove, "/batches/"}: {serveGeminiBatchJob, &geminiProtocol},
			{get, "/files/"}:      {serveGeminiFile, &geminiProtocol},
			{remove, "/files/"}:   {serveGeminiFileDelete, &geminiProtocol},
		}},
		vendors: vendorRoutes(),
		ending:  endings(),
	}
}

// vendorRoutes returns the operations below the names of vendors that differ from
// those of the chat protocol.
func vendorRoutes() map[string]table {
	const get, post, put = http.MethodGet, http.MethodPost, http.MethodPut
	return map[string]table{
		"together": {exact: map[route]service{
			{post, "/files/upload"}: {serveUpload, nil},
			{post, "/batches"}:      {serveTogetherCreate, nil},
			{get, "/batches"}:       {serveTogetherBatches, nil},
		}, prefix: map[route]service{
			{put, "/files/"}:    {serveTogetherContent, nil},
			{post, "/files/"}:   {serveTogetherPreprocess, nil},
			{get, "/batches/"}:  {serveTogetherBatch, nil},
			{post, "/batches/"}: {serveTogetherBatch, nil},
		}},
		"xai": {exact: map[route]service{
			{post, "/batches"}: {serveXAICreate, nil},
			{get, "/batches"}:  {serveXAIBatches, nil},
		}, prefix: map[route]service{
			{get, "/batches/"}:  {serveXAIBatch, nil},
			{post, "/batches/"}: {serveXAIBatch, nil},
		}},
	}
}

// endings returns the operations that are found by the end of their path.
func endings() []ending {
	return []ending{
		{"/anthropic/v1/messages", service{serveMessages, &messagesProtocol}},
		{"/anthropic/v1/messages/count_tokens", service{serveMessagesCount, &messagesProtocol}},
		{":generateContent", service{serveGemini, &geminiProtocol}},
		{":streamGenerateContent", service{serveGemini, &geminiProtocol}},
		{":countTokens", service{serveGeminiCount, &geminiProtocol}},
		{":embedContent", service{serveGeminiEmbed, &geminiProtocol}},
		{":batchEmbedContents", service{serveGeminiBatch, &geminiProtocol}},
		{":batchGenerateContent", service{serveGeminiBatchCreate, &geminiProtocol}},
		{":asyncBatchEmbedContent", service{serveGeminiBatchCreate, &geminiProtocol}},
		{":predict", service{serveVertexPredict, &geminiProtocol}},
		{"/count-tokens:rawPredict", service{serveVertexCount, &messagesProtocol}},
		{":rawPredict", service{serveVertexMessages, &messagesProtocol}},
		{":streamRawPredict", service{serveVertexMessages, &messagesProtocol}},
		{"/converse", service{serveConverse, &converseProtocol}},
		{"/converse-stream", service{serveConverse, &converseProtocol}},
		{"/invoke", service{serveInvoke, &invokeProtocol}},
		{"/invoke-with-response-stream", service{serveInvoke, &invokeProtocol}},
		{"/count-tokens", service{serveBedrockCount, &converseProtocol}},
		{"/invocations", service{serveEndpoint, nil}},
		{"/invocations-response-stream", service{serveEndpoint, nil}},
	}
}

// find returns the service of a request, whose path may begin with /v1, or with an
// Azure deployment. Unknown paths are echoed.
func (rs *routes) find(r *http.Request) service {
	method, path := r.Method, withoutVersion(r.URL.Path)
	if vendor, _ := cutVendor(r.URL.Path); vendor != "" {
		t := rs.vendors[vendor]
		if s := t.find(method, path); s.serve != nil {
			return s
		}
	}
	if len(r.Header["Anthropic-Version"]) > 0 {
		if s := rs.anthropic.find(method, path); s.serve != nil {
			return s
		}
	}
	if len(r.Header["X-Goog-Api-Client"]) > 0 {
		if s := rs.google.find(method, path); s.serve != nil {
			return s
		}
	}
	if s := rs.table.find(method, path); s.serve != nil {
		return s
	}
	if s := findSocket(method, path); s.serve != nil {
		return s
	}
	if s := findRealtimeCall(method, path); s.serve != nil {
		return s
	}
	if method == http.MethodPost {
		for i := range rs.ending {
			if e := &rs.ending[i]; e.fits(path) {
				return e.service
			}
		}
	}
	if s, ok := findVertexJob(path); ok {
		return s
	}
	if s, ok := findStorage(r.URL.Path); ok {
		return s
	}
	if findS3(r) {
		return service{serveS3, &s3Protocol}
	}
	return service{serveEcho, nil}
}

// fits reports whether a path matches the ending. Bedrock's paths begin with
// the model, and a verb after a colon follows a model.
func (e *ending) fits(path string) bool {
	if !strings.HasSuffix(path, e.suffix) {
		return false
	}
	if e.protocol == nil {
		return strings.HasPrefix(path, "/endpoints/")
	}
	if e.protocol.kind >= framingBinary {
		return strings.HasPrefix(path, "/model/")
	}
	return e.suffix[0] == '/' || strings.Contains(path, "models/")
}

// vendorNames are the vendors whose paths may begin with their name, to choose
// the shapes of that vendor: /together/v1/batches.
var vendorNames = []string{"anthropic", "azure", "cohere", "fireworks", "groq", "mistral", "together", "xai"}

// cutVendor cuts off the vendor with which a path begins.
func cutVendor(path string) (vendor, rest string) {
	if len(path) < 2 {
		return "", path
	}
	end := strings.IndexByte(path[1:], '/') + 1
	if end > 1 && slices.Contains(vendorNames, path[1:end]) {
		return path[1:end], path[end:]
	}
	return "", path
}

// vendor returns the vendor with which the path begins, or an empty string.
func (x *exchange) vendor() string {
	name, _ := cutVendor(x.r.URL.Path)
	return name
}

// withoutVersion returns the path of an operation: without the vendor, the
// version, and what Azure has before it.
func withoutVersion(path string) string {
	_, path = cutVendor(path)
	inner, ok := strings.CutPrefix(path, "/openai/")
	if ok {
		path = "/" + inner
	}
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
		path = "/" + rest
	}
	deployment, ok := strings.CutPrefix(path, "/deployments/")
	if _, operation, more := strings.Cut(deployment, "/"); ok && more {
		return "/" + operation
	}
	return path
}

// modelBetween returns the model in a path: the text between the last
// occurrences of before and after.
func modelBetween(path, before, after string) string {
	if at := strings.LastIndex(path, after); at >= 0 {
		path = path[:at]
	}
	if at := strings.Index(path, before); at >= 0 {
		path = path[at+len(before):]
	}
	return path
}
