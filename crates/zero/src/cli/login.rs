//! Command-line arguments of `zero login`, `zero logout` and `zero models`.

use std::path::PathBuf;

use clap::Args;

/// `zero login`
#[derive(Debug, Args)]
#[command(
    after_help = "zero tests the model with one short request, then stores the key in the desktop's keyring, or in a
file that only you can read if there is none, and makes the model your default. If the test fails,
nothing changes.

Providers: openai, anthropic, gemini, openrouter, mistral, deepseek, xai, groq, cerebras, together,
fireworks; ollama, llamacpp, lmstudio and vllm on this machine, which need no key. Any other name
stands for a server with a chat completions API, and needs --base-url and --model.

Examples:
  zero login                                           choose step by step
  zero login --provider anthropic --key-stdin < ~/anthropic.key
  zero login --provider ollama --model qwen3:8b
  zero login --provider work --base-url https://llm.example.com/v1 --model large --key-stdin

Exit codes: 0 done, 1 the test failed or nothing could be stored, 2 wrong usage."
)]
pub struct LoginArgs {
    /// Provider of the model [default: zero asks on the terminal]
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// Read the key from stdin
    #[arg(long)]
    pub key_stdin: bool,
    /// Model to use, by the provider's name for it [default: zero chooses one of the provider's]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Address of the server, such as `http://127.0.0.1:8000/v1` [default: that of the provider]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Do not send the test request
    #[arg(long)]
    pub no_test: bool,
}

/// `zero logout`
#[derive(Debug, Args)]
#[command(after_help = "Removes the key that `zero login` stored and the model from your settings.

Example:
  zero logout anthropic

Exit codes: 0 removed, 1 there was nothing to remove, 2 wrong usage.")]
pub struct LogoutArgs {
    /// Provider, as given to `zero login`
    #[arg(value_name = "PROVIDER")]
    pub provider: String,
}

/// `zero models`
#[derive(Debug, Args)]
#[command(
    after_help = "Lists the models of settings and environment, and the model servers that run on this machine:
Ollama, llama.cpp, LM Studio and vLLM at their usual ports.

Examples:
  zero models
  zero models --json

Exit codes: 0 there is a model to use, 1 there is none, 2 wrong usage."
)]
pub struct ModelsArgs {
    /// Folder of the project [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Settings file to use instead of yours and the folder's; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
