//! Runs each fuzz target over its seeds, without a nightly compiler and without libFuzzer.
//!
//! The targets are compiled as they are. Their `fuzz_target!` is that of the crate `fuzz-target-macro`.

#[cfg(test)]
mod targets;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests read the repository")]
mod tests {
    use std::path::{Path, PathBuf};

    use super::targets;

    /// Most inputs that are made of one seed.
    const VARIANTS_MAX: usize = 200;

    type FuzzTarget = (&'static str, fn(&[u8]));

    const TARGETS: &[FuzzTarget] = &[
        ("declarations", targets::declarations::fuzz),
        ("dialect_mapping", targets::dialect_mapping::fuzz),
        ("edit", targets::edit::fuzz),
        ("event_stream", targets::event_stream::fuzz),
        ("html_page", targets::html_page::fuzz),
        ("lsp_frames", targets::lsp_frames::fuzz),
        ("mcp_intake", targets::mcp_intake::fuzz),
        ("path_handling", targets::path_handling::fuzz),
        ("pdf_text", targets::pdf_text::fuzz),
        ("policy_decide", targets::policy_decide::fuzz),
        ("proxy_request", targets::proxy_request::fuzz),
        ("schema_validation", targets::schema_validation::fuzz),
        ("shell_parse", targets::shell_parse::fuzz),
        ("tls_greeting", targets::tls_greeting::fuzz),
        ("wire_frames", targets::wire_frames::fuzz),
    ];

    fn fuzz_folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
    }

    /// The seeds of a target, and the findings and corpus of earlier runs on this machine.
    fn read_seeds(target: &str) -> Vec<Vec<u8>> {
        let folders =
            ["seeds", "corpus", "artifacts"].map(|kind| fuzz_folder().join(kind).join(target));
        let mut seeds = Vec::new();
        for folder in folders {
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            seeds.extend(entries.filter_map(|entry| std::fs::read(entry.path()).ok()));
        }
        seeds
    }

    /// The seed, its beginnings, and the seed with one byte changed at evenly spread places.
    fn make_variants(seed: &[u8]) -> Vec<Vec<u8>> {
        let step = (seed.len() / (VARIANTS_MAX / 2)).max(1);
        let mut variants = vec![seed.to_vec()];
        for at in (0..seed.len()).step_by(step) {
            variants.push(seed[..at].to_vec());
            let mut changed = seed.to_vec();
            changed[at] = changed[at].wrapping_add(1 + (at % 255) as u8);
            variants.push(changed);
        }
        variants
    }

    fn run(target: &str) {
        let (_, fuzz) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
        let seeds = read_seeds(target);
        assert!(!seeds.is_empty(), "there are no seeds in fuzz/seeds/{target}");
        for seed in seeds {
            make_variants(&seed).iter().for_each(|input| fuzz(input));
        }
    }

    #[test]
    fn declarations_holds_over_seeds() {
        run("declarations");
    }

    #[test]
    fn dialect_mapping_holds_over_seeds() {
        run("dialect_mapping");
    }

    #[test]
    fn edit_holds_over_seeds() {
        run("edit");
    }

    #[test]
    fn event_stream_holds_over_seeds() {
        run("event_stream");
    }

    #[test]
    fn html_page_holds_over_seeds() {
        run("html_page");
    }

    #[test]
    fn lsp_frames_holds_over_seeds() {
        run("lsp_frames");
    }

    #[test]
    fn mcp_intake_holds_over_seeds() {
        run("mcp_intake");
    }

    #[test]
    fn path_handling_holds_over_seeds() {
        run("path_handling");
    }

    #[test]
    fn pdf_text_holds_over_seeds() {
        run("pdf_text");
    }

    #[test]
    fn policy_decide_holds_over_seeds() {
        run("policy_decide");
    }

    #[test]
    fn proxy_request_holds_over_seeds() {
        run("proxy_request");
    }

    #[test]
    fn schema_validation_holds_over_seeds() {
        run("schema_validation");
    }

    #[test]
    fn shell_parse_holds_over_seeds() {
        run("shell_parse");
    }

    #[test]
    fn tls_greeting_holds_over_seeds() {
        run("tls_greeting");
    }

    #[test]
    fn wire_frames_holds_over_seeds() {
        run("wire_frames");
    }

    #[test]
    fn every_target_is_run() {
        let listed = std::fs::read_dir(fuzz_folder().join("fuzz_targets")).unwrap();
        let mut files: Vec<String> = listed
            .map(|entry| entry.unwrap().file_name().to_string_lossy().replace(".rs", ""))
            .collect();
        files.sort();
        let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, files);
        let manifest = std::fs::read_to_string(fuzz_folder().join("Cargo.toml")).unwrap();
        for name in known {
            assert!(
                manifest.contains(&format!("name = \"{name}\"")),
                "{name} is not in fuzz/Cargo.toml"
            );
        }
    }
}
