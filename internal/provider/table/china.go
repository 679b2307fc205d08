package table

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
)

// chinaRows returns the providers in China that are like OpenAI.
func chinaRows() []*provider.Spec {
	return chatRows([]*provider.Spec{
		{ID: "ai360", Name: "360 AI", BaseURL: "https://ai.360.cn/v1", Env: "AI360_API_KEY", Paths: paths(api.Chat, api.Embeddings)},
		{
			ID: "baichuan", Name: "Baichuan", BaseURL: "https://api.baichuan-ai.com/v1", Env: "BAICHUAN_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Embeddings),
		},
		{
			ID: "baidu-qianfan", Name: "Baidu Qianfan", BaseURL: "https://qianfan.baidubce.com/v2", Env: "QIANFAN_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Images, api.Rerank),
		},
		{
			ID: "byteplus", Name: "BytePlus ModelArk", BaseURL: "https://ark.{region}.bytepluses.com/api/v3", Env: "BYTEPLUS_API_KEY",
			Paths: paths(api.Chat, api.Images, api.Responses),
			Options: []provider.Option{
				{Name: "region", Default: "ap-southeast-1", Host: provider.HostRegion, Doc: "ap-southeast-1 or eu-west-1"},
			},
			Profile: dialect.Profile{Turns: systemOnly, Chat: arkChat},
			Notes:   []string{"The model is an endpoint id (ep-…) or a model id. Embeddings have their own format."},
		},
		{
			ID: "dashscope", Name: "Alibaba DashScope",
			Aliases: []string{"qwen", "alibaba"},
			BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
			Env:     "DASHSCOPE_API_KEY",
			Paths:   paths(api.Chat, api.Embeddings, api.Models, api.Files, api.Batches),
			// https://help.aliyun.com/zh/model-studio/compatibility-of-openai-with-dashscope
			Drop:    []string{"frequency_penalty"},
			Profile: dialect.Profile{Turns: systemOnly, Chat: &dialect.ChatProfile{History: dialect.ThinkingText}},
			Notes: []string{
				"Singapore's host. China: https://dashscope.aliyuncs.com/compatible-mode/v1, United States: https://dashscope-us.aliyuncs.com/compatible-mode/v1.",
				"Images and reranking have their own formats.",
			},
		},
		{
			ID: "deepseek", Name: "DeepSeek", BaseURL: "https://api.deepseek.com/v1", Env: "DEEPSEEK_API_KEY",
			UsageUnasked: true,
			// https://api-docs.deepseek.com/guides/anthropic_api
			Paths: join(paths(api.Chat, api.Models), nativePaths{api.Messages: "https://api.deepseek.com/anthropic/v1/messages"}),
			// https://api-docs.deepseek.com/api/create-chat-completion
			Drop:   []string{"logit_bias", "seed", "user"},
			Rename: maxTokens,
			// https://api-docs.deepseek.com/guides/reasoning_model
			Models: modeldata.DeepSeek,
			// https://api-docs.deepseek.com
			Profile: dialect.Profile{Turns: systemOnly, Chat: &dialect.ChatProfile{
				NoTopK: true, History: dialect.ThinkingText, Effort: dialect.EffortThinking,
				Efforts: rename{"none": "", "minimal": "low", "xhigh": "max"},
				Formats: []llm.FormatKind{llm.FormatText, llm.FormatJSON},
			}},
			Docs: "https://api-docs.deepseek.com",
			Notes: []string{
				"Reasoning is in reasoning_content.",
				"Under load, responses begin with blank lines or comments.",
			},
		},
		{
			ID: "hunyuan", Name: "Tencent Hunyuan", BaseURL: "https://api.hunyuan.cloud.tencent.com/v1", Env: "HUNYUAN_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Embeddings),
		},
		{
			ID: "lingyi", Name: "01.AI Lingyi", BaseURL: "https://api.lingyiwanwu.com/v1", Env: "LINGYI_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Models),
		},
		{
			ID: "minimax", Name: "MiniMax", BaseURL: "https://api.minimax.io/v1", Env: "MINIMAX_API_KEY",
			Profile:      dialect.Profile{Turns: systemOnly},
			UsageUnasked: true,
			// https://platform.minimax.io/docs/api-reference/text-anthropic-api
			Paths: join(paths(api.Chat, api.Models), nativePaths{api.Messages: "https://api.minimax.io/anthropic/v1/messages"}),
			Notes: []string{
				"China's host: https://api.minimaxi.com/v1. Errors may come with status 200 and base_resp.",
				"Speech, images and embeddings have their own formats.",
			},
		},
		{
			ID: "moonshot", Name: "Moonshot AI", BaseURL: "https://api.moonshot.cn/v1", Env: "MOONSHOT_API_KEY",
			UsageUnasked: true,
			Paths:        join(paths(api.Chat, api.Models, api.Files), nativePaths{api.Messages: "https://api.moonshot.cn/anthropic/v1/messages"}),
			// https://platform.moonshot.ai/docs/api/chat
			Limits: limits{"temperature": {Min: 0, Max: 1}},
			// https://platform.moonshot.ai/docs/api/chat
			Profile: dialect.Profile{Turns: systemOnly, Chat: &dialect.ChatProfile{
				NoTopK: true, History: dialect.ThinkingText, Effort: dialect.EffortThinking,
				Efforts: rename{"none": "", "minimal": "low", "medium": "high", "xhigh": "max"},
				Modes:   []llm.ChoiceMode{llm.ChoiceAuto, llm.ChoiceNone},
			}},
			Notes: []string{"China's host; international: https://api.moonshot.ai/v1 as custom host."},
		},
		{
			ID: "siliconflow", Name: "SiliconFlow", BaseURL: "https://api.siliconflow.cn/v1", Env: "SILICONFLOW_API_KEY",
			UsageUnasked: true,
			Paths: paths(api.Chat, api.Embeddings, api.Images, api.AudioSpeech, api.AudioTranscriptions, api.Rerank,
				api.Models),
			Profile: dialect.Profile{Turns: systemOnly, Chat: &dialect.ChatProfile{History: dialect.ThinkingText}},
			Notes: []string{
				"China's host; international: https://api.siliconflow.com/v1 as custom host.",
				"Images take image_size and batch_size instead of size and n.",
			},
		},
		{
			ID: "stepfun", Name: "StepFun", BaseURL: "https://api.stepfun.com/v1", Env: "STEPFUN_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Images, api.AudioSpeech, api.AudioTranscriptions, api.Models, api.Files),
		},
		{
			ID: "volcengine", Name: "Volcengine Ark (Doubao)", BaseURL: "https://ark.cn-beijing.volces.com/api/v3", Env: "ARK_API_KEY",
			Paths:   paths(api.Chat, api.Embeddings, api.Images, api.Responses, api.Models),
			Profile: dialect.Profile{Turns: systemOnly, Chat: arkChat},
			Notes:   []string{"The model is an endpoint id or a model id."},
		},
		{
			ID: "xiaomi-mimo", Name: "Xiaomi MiMo", BaseURL: "https://api.xiaomimimo.com/v1", Env: "XIAOMI_MIMO_API_KEY",
			Paths:  paths(api.Chat, api.Models),
			Rename: maxTokens,
		},
		{
			ID: "xunfei-spark", Name: "iFlytek Spark", BaseURL: "https://spark-api-open.xf-yun.com/v1", Env: "SPARK_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat),
			Notes:        []string{"The key is the APIPassword."},
		},
		{
			ID: "z-ai", Name: "Z.ai", BaseURL: "https://api.z.ai/api/paas/v4", Env: "ZAI_API_KEY",
			UsageUnasked: true,
			Paths: join(paths(api.Chat, api.Embeddings, api.Images, api.Models),
				nativePaths{api.Messages: "https://api.z.ai/api/anthropic/v1/messages"}),
			// https://docs.z.ai/api-reference/llm/chat-completion
			Drop:    []string{"frequency_penalty", "logit_bias", "logprobs", "n", "presence_penalty", "seed", "top_logprobs"},
			Rename:  rename{"max_completion_tokens": "max_tokens", "user": "user_id"},
			Profile: dialect.Profile{Turns: systemOnly, Chat: zhipuChat},
			Notes:   []string{"Same protocol as zhipu. Coding plan: https://api.z.ai/api/coding/paas/v4 as custom host."},
		},
		{
			ID: "zhipu", Name: "Zhipu AI (BigModel)", BaseURL: "https://open.bigmodel.cn/api/paas/v4", Env: "ZHIPU_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Embeddings, api.Images, api.Rerank, api.Models),
			// https://docs.bigmodel.cn/api-reference
			Drop:    []string{"frequency_penalty", "logit_bias", "logprobs", "n", "presence_penalty", "seed", "top_logprobs"},
			Rename:  rename{"max_completion_tokens": "max_tokens", "user": "user_id"},
			Profile: dialect.Profile{Turns: systemOnly, Chat: zhipuChat},
			Notes:   []string{"temperature must be above 0. response_format knows text and json_object."},
		},
	})
}
