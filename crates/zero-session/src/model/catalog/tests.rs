//! Table: the models that an environment configures, and the errors for unknown names.

use super::*;

/// The environment with these `NAME=value` pairs.
fn env(words: &str) -> impl Fn(&str) -> Option<String> {
    move |name: &str| {
        let mut words = words.split_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    }
}

fn describe_config(config: &ModelConfig) -> String {
    let key = match &config.key {
        Some(source) => source().unwrap().reveal().to_owned(),
        None => "-".to_owned(),
    };
    format!("{} {:?} {} {key}", config.name, config.api, config.base_url)
}

#[test]
fn environment_gives_model_per_provider() {
    #[track_caller]
    fn check(words: &str, expected: &[&str]) {
        let models = from_environment(&env(words));
        assert_eq!(models.iter().map(describe_config).collect::<Vec<_>>(), expected, "{words}");
    }
    check("", &[]);
    check("OPENAI_API_KEY= ANTHROPIC_API_KEY=", &[]);
    check("OPENAI_API_KEY=k", &["openai/gpt-5 OpenAiResponses https://api.openai.com/v1 k"]);
    check(
        "OPENAI_API_KEY=k OPENAI_BASE_URL=https://openrouter.ai/api/v1",
        &["openai/gpt-5 OpenAiChat https://openrouter.ai/api/v1 k"],
    );
    check(
        "OPENAI_BASE_URL=http://127.0.0.1:8080/v1",
        &["openai/gpt-5 OpenAiChat http://127.0.0.1:8080/v1 -"],
    );
    check(
        "OPENAI_API_KEY=k OPENAI_BASE_URL=https://api.openai.com.evil.example/v1",
        &["openai/gpt-5 OpenAiChat https://api.openai.com.evil.example/v1 k"],
    );
    check(
        "GOOGLE_API_KEY=g ANTHROPIC_API_KEY=a ANTHROPIC_BASE_URL=https://proxy.example",
        &[
            "anthropic/claude-sonnet-4-5 Anthropic https://proxy.example a",
            "gemini/gemini-2.5-pro Gemini https://generativelanguage.googleapis.com g",
        ],
    );
    check(
        "GOOGLE_API_KEY=g GEMINI_API_KEY=first",
        &["gemini/gemini-2.5-pro Gemini https://generativelanguage.googleapis.com first"],
    );
    check(
        "OPENAI_API_KEY=k OLLAMA_HOST=localhost ZERO_MODEL=ollama/llama3.2:3b",
        &[
            "ollama/llama3.2:3b OpenAiChat http://localhost:11434/v1 -",
            "openai/gpt-5 OpenAiResponses https://api.openai.com/v1 k",
        ],
    );
    check(
        "OPENAI_API_KEY=k ZERO_MODEL=mine",
        &["openai/gpt-5 OpenAiResponses https://api.openai.com/v1 k"],
    );
}

#[test]
fn ollama_host_is_parsed_like_ollama() {
    #[track_caller]
    fn check(host: &str, expected: &str) {
        let models = from_environment(&env(&format!("OLLAMA_HOST={host}")));
        assert_eq!(models[0].base_url, expected, "{host}");
        assert_eq!(models[0].context_window, Some(32_768));
    }
    check("127.0.0.1:11434", "http://127.0.0.1:11434/v1");
    check("0.0.0.0", "http://127.0.0.1:11434/v1");
    check("[::]:9", "http://127.0.0.1:9/v1");
    check(":9", "http://127.0.0.1:9/v1");
    check("box:1234/", "http://box:1234/v1");
    check("http://box", "http://box/v1");
    check("https://box/ollama", "https://box/ollama/v1");
    let models = from_environment(&env("OLLAMA_HOST=box OLLAMA_CONTEXT_LENGTH=65536"));
    assert_eq!(models[0].context_window, Some(65_536));
}

#[test]
fn zero_model_is_default_else_first() {
    #[track_caller]
    fn check(words: &str, expected: Option<&str>) {
        let env = env(words);
        assert_eq!(
            default_model_name(&env, &from_environment(&env)).as_deref(),
            expected,
            "{words}"
        );
    }
    check("", None);
    check("ZERO_MODEL=fast", Some("fast"));
    check("OPENAI_API_KEY=k", Some("openai/gpt-5"));
    check("OPENAI_API_KEY=k ZERO_MODEL=openai/o3", Some("openai/o3"));
}

fn models(words: &str) -> ModelCatalog {
    let env = env(words);
    let configs = from_environment(&env);
    let default = default_model_name(&env, &configs);
    ModelCatalog::from_configs(configs, default)
}

#[track_caller]
fn error(models: &ModelCatalog, name: Option<&str>) -> String {
    let error = models.get(name).err().unwrap();
    assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    error.message
}

#[test]
fn any_model_of_known_provider_resolves() {
    let models = models("OPENAI_API_KEY=k OLLAMA_HOST=box");
    let info = |name| models.get(name).unwrap().info().clone();
    assert_eq!(info(None).name, "openai/gpt-5");
    assert_eq!(info(Some("ollama/qwen3")).context_window, 32_768);
    assert_eq!(info(Some("ollama/qwen3-coder")).context_window, 32_768);
    let other = info(Some("openai/gpt-4.1"));
    assert_eq!((other.id.as_str(), other.context_window), ("gpt-4.1", 1_047_576));
    assert_eq!(info(Some("openai/ft:org/mine")).id, "ft:org/mine");
    assert_eq!(models.names().collect::<Vec<_>>(), ["direct", "ollama/qwen3", "openai/gpt-5"]);
}

#[test]
fn unknown_model_error_lists_names() {
    let openai = models("OPENAI_API_KEY=k OLLAMA_HOST=box");
    let names = "there are `openai/gpt-5`, `direct`, `ollama/qwen3`, and any other of a provider by its own name, such as `ollama/…`";
    assert_eq!(
        error(&openai, Some("opnai/gpt-5")),
        format!("there is no model `opnai/gpt-5`; {names}")
    );
    assert!(error(&openai, Some("openai/")).starts_with("there is no model `openai/`; "));
    assert!(error(&openai, Some("openai/a\nb")).starts_with("there is no model `openai/a\\nb`; "));
    assert_eq!(error(&ModelCatalog::default(), None), NO_MODEL_HELP);
    assert_eq!(error(&ModelCatalog::default(), Some("gpt-5")), NO_MODEL_HELP);
    let unchosen = ModelCatalog::new(vec![openai.get(None).unwrap()], None);
    assert_eq!(
        error(&unchosen, None),
        "no model was chosen; set ZERO_MODEL, or `model` in settings, to one of `openai/gpt-5`"
    );
}

#[test]
fn unusable_model_does_not_affect_others() {
    let mut configs = from_environment(&env("OPENAI_API_KEY=k"));
    let broken = |name: &str, base_url: &str, header: &str| ModelConfig {
        name: name.to_owned(),
        base_url: base_url.to_owned(),
        headers: vec![(header.to_owned(), "x".to_owned())],
        ..configs[0].clone()
    };
    let broken = [
        broken("a", "ftp://x", "x-a"),
        broken("b", "not a url", "x-a"),
        broken("c", "https://name:secretword@x", "x-a"),
        broken("d", "https://x", "Host"),
        broken("e", "https://x", "a b"),
    ];
    configs.extend(broken);
    let models = ModelCatalog::from_configs(configs, None);
    assert!(models.get(Some("openai/gpt-5")).is_ok());
    let like = "write it like https://api.openai.com/v1";
    assert_eq!(
        error(&models, Some("a")),
        format!("the base URL of `a` is neither https nor http; {like}")
    );
    assert_eq!(
        error(&models, Some("b")),
        format!("the base URL of `b` cannot be read (relative URL without a base); {like}")
    );
    assert_eq!(
        error(&models, Some("c")),
        format!(
            "the base URL of `c` holds a name or a password, which belong into the model's key; {like}"
        )
    );
    assert_eq!(
        error(&models, Some("d")),
        "the header `Host` of `d` cannot be set; take it out of settings"
    );
    assert_eq!(
        error(&models, Some("e")),
        "the header `a b` of `e` has a name that no header can have"
    );
}

#[test]
fn api_key_is_not_printed() {
    assert_eq!(format!("{:?}", ApiKey::new("sk-secret")), "Key(…)");
}
