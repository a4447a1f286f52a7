//! Small pictures of characters: of blocks where the terminal shows them, of plain characters otherwise.

/// The characters that a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// The blocks of Unicode.
    Unicode,
    /// Plain characters.
    Ascii,
}

impl Blocks {
    /// Those that the locale of this process has.
    pub(crate) fn of_locale() -> Self {
        let named = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
        Self::of(&named.into_iter().find(|value| !value.is_empty()).unwrap_or_default())
    }

    /// Those of a locale such as `C.UTF-8`.
    fn of(locale: &str) -> Self {
        let locale = locale.to_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") { Self::Unicode } else { Self::Ascii }
    }

    /// A column for each value, as high as it is a part of `most`.
    pub(crate) fn columns(self, values: impl IntoIterator<Item = f64>, most: f64) -> String {
        let levels = match self {
            Self::Unicode => [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => [' ', '.', ':', '-', '=', '+', '*', '%', '#'],
        };
        values.into_iter().map(|value| levels[eighths(value, most, 8)]).collect()
    }

    /// A bar of at most `width` characters, as long as `value` is a part of `most`.
    pub(crate) fn bar(self, value: f64, most: f64, width: usize) -> String {
        const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let eighths = eighths(value, most, 8 * width);
        match self {
            Self::Unicode => "█".repeat(eighths / 8) + PARTS[eighths % 8],
            Self::Ascii => "#".repeat(eighths.div_ceil(8)),
        }
    }
}

/// A part of `steps`; anything that is not nothing has one.
fn eighths(value: f64, most: f64, steps: usize) -> usize {
    if value <= 0.0 || most <= 0.0 {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from one to a few hundred")]
    let part = (value / most * steps as f64).round().clamp(1.0, steps as f64) as usize;
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_heights_and_lengths() {
        let values = [0.0, 0.1, 2.0, 4.0, 8.0, 9.0];
        assert_eq!(Blocks::Unicode.columns(values, 8.0), " ▁▂▄██");
        assert_eq!(Blocks::Ascii.columns(values, 8.0), " .:=##");
        assert_eq!(Blocks::Unicode.bar(4.5, 8.0, 8), "████▌");
        assert_eq!(Blocks::Ascii.bar(4.5, 8.0, 8), "#####");
        assert_eq!(Blocks::Unicode.bar(1.0, 0.0, 8), "");
    }

    #[test]
    fn the_locale_decides() {
        let of = ["C.UTF-8", "de_DE.utf8", "C", "POSIX", ""].map(Blocks::of);
        use Blocks::{Ascii, Unicode};
        assert_eq!(of, [Unicode, Unicode, Ascii, Ascii, Ascii]);
    }
}
