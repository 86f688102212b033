//! The Homebrew formula, for Homebrew on Linux.

use std::fmt::Write as _;

use anyhow::Result;

use super::platform::Platform;
use super::release_info::{ReleaseFile, ReleaseInfo, SUMMARY};
use super::release_sums::sha256;

pub(super) fn formula(
    archives: &[(&Platform, ReleaseFile)],
    address: &str,
    release: &ReleaseInfo,
) -> Result<ReleaseFile> {
    let mut text = format!(
        "class Zero < Formula\n  desc \"{SUMMARY}\"\n  homepage \"{address}\"\n  version \"{}\"\n  \
         license any_of: [\"MIT\", \"Apache-2.0\"]\n\n  depends_on \"bubblewrap\"\n  depends_on :linux\n",
        release.version
    );
    for (platform, archive) in archives {
        write!(
            text,
            "\n  {} do\n    url \"{address}{}\"\n    sha256 \"{}\"\n  end\n",
            platform.homebrew,
            archive.name,
            sha256(&archive.content)
        )?;
    }
    text.push_str(
        "\n  def install\n    inreplace \"share/zero/install.json\", '\"archive\"', '\"brew\"'\n    \
         prefix.install \"bin\", \"share\"\n  end\n\n  \
         test do\n    (testpath/\"note.txt\").write \"hello\"\n    \
         assert_match \"hello\", shell_output(\"#{bin}/zero tools call Read '{\\\"file_path\\\": \\\"note.txt\\\"}'\")\n  \
         end\nend\n",
    );
    Ok(ReleaseFile::new("zero.rb", text))
}
