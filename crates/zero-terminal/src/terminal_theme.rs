//! Colors that can be read on the background of the terminal.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anstyle::{Ansi256Color, AnsiColor, Color, Style};

/// For which background colors are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TerminalTheme {
    /// Colors for the background that the terminal reports; else its own palette.
    #[default]
    Auto,
    /// Dark colors, for a light background.
    Light,
    /// Light colors, for a dark background.
    Dark,
    /// No colors and no other styles.
    None,
}

impl TerminalTheme {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Light, Self::Dark, Self::None];

    /// Its name for the user.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
            Self::None => "none",
        }
    }

    /// The style with a color that can be read.
    pub(crate) fn adapt(self, style: Style) -> Style {
        let Some(Color::Ansi(color)) = style.get_fg_color() else { return style };
        let fixed = match (self, color) {
            (Self::Auto | Self::None, _) => return style,
            (Self::Light, AnsiColor::Red) => 124,
            (Self::Light, AnsiColor::Green) => 28,
            (Self::Light, AnsiColor::Yellow) => 130,
            (Self::Light, AnsiColor::Blue) => 25,
            (Self::Light, AnsiColor::Magenta) => 90,
            (Self::Light, AnsiColor::Cyan) => 30,
            (Self::Dark, AnsiColor::Red) => 203,
            (Self::Dark, AnsiColor::Green) => 114,
            (Self::Dark, AnsiColor::Yellow) => 221,
            (Self::Dark, AnsiColor::Blue) => 111,
            (Self::Dark, AnsiColor::Magenta) => 176,
            (Self::Dark, AnsiColor::Cyan) => 80,
            _ => return style,
        };
        style.fg_color(Some(Ansi256Color(fixed).into()))
    }
}

impl FromStr for TerminalTheme {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|theme| theme.name() == name).ok_or(())
    }
}

/// The theme of a terminal, which its streams share.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedTheme {
    /// What was chosen.
    chosen: Arc<AtomicU8>,
    /// What fits the background; the default as long as that is not known.
    fitting: Arc<AtomicU8>,
}

impl SharedTheme {
    /// The theme that was chosen.
    pub(crate) fn chosen(&self) -> TerminalTheme {
        load(&self.chosen)
    }

    pub(crate) fn choose(&self, theme: TerminalTheme) {
        store(&self.chosen, theme);
    }

    /// The theme that applies.
    pub(crate) fn effective(&self) -> TerminalTheme {
        match self.chosen() {
            TerminalTheme::Auto => load(&self.fitting),
            chosen => chosen,
        }
    }

    /// Says which background the terminal has.
    pub(crate) fn set_background(&self, is_light: bool) {
        let theme = if is_light { TerminalTheme::Light } else { TerminalTheme::Dark };
        store(&self.fitting, theme);
    }
}

fn load(theme: &AtomicU8) -> TerminalTheme {
    let at = usize::from(theme.load(Ordering::Relaxed));
    TerminalTheme::ALL.get(at).copied().unwrap_or_default()
}

fn store(to: &AtomicU8, theme: TerminalTheme) {
    let at = TerminalTheme::ALL.iter().position(|known| *known == theme).unwrap_or(0);
    to.store(u8::try_from(at).unwrap_or(0), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NOTABLE, Terminal};

    #[test]
    fn streams_of_a_terminal_share_its_theme() {
        let stream = Terminal::for_test().out.with_columns(80);
        let other = stream.clone();
        assert_eq!(stream.paint(NOTABLE, "x"), "\x1b[33mx\x1b[0m");
        for (name, shown) in [
            ("light", "\x1b[38;5;130mx\x1b[0m"),
            ("dark", "\x1b[38;5;221mx\x1b[0m"),
            ("none", "x"),
            ("auto", "\x1b[33mx\x1b[0m"),
        ] {
            other.set_theme(name.parse().unwrap());
            assert_eq!(stream.paint(NOTABLE, "x"), shown, "{name}");
        }
        assert!("blue".parse::<TerminalTheme>().is_err());
    }

    #[test]
    fn background_decides_unless_a_theme_is_chosen() {
        let stream = Terminal::for_test().out.with_columns(80);
        stream.set_background(true);
        assert_eq!(stream.paint(NOTABLE, "x"), "\x1b[38;5;130mx\x1b[0m");
        stream.set_background(false);
        assert_eq!(stream.paint(NOTABLE, "x"), "\x1b[38;5;221mx\x1b[0m");
        stream.set_theme(TerminalTheme::Light);
        assert_eq!(stream.paint(NOTABLE, "x"), "\x1b[38;5;130mx\x1b[0m");
        assert_eq!(stream.theme(), TerminalTheme::Light);
        stream.set_theme(TerminalTheme::None);
        assert_eq!(stream.paint(NOTABLE, "x"), "x");
    }
}
