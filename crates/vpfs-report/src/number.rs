//! Numbers in human-readable form.

/// Four significant digits, without trailing zeros: `0.3333`, `12.5`, `6817`, `1.2e9`.
///
/// Values from a million on, and below a ten-thousandth, are in scientific notation.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    // Rounded first, as 999,999 is a million in four digits.
    let scientific = format!("{value:.3e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation has an exponent");
    match exponent.parse::<i32>().expect("an exponent is a small integer") {
        power @ -4..=5 => {
            let decimals = usize::try_from(3 - power).unwrap_or(0);
            trimmed(&format!("{value:.decimals$}")).to_owned()
        }
        _ => format!("{}e{exponent}", trimmed(mantissa)),
    }
}

/// A number with its unit, if it has one.
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    let number = number(value);
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

/// Without trailing zeros.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_enough() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0 / 3.0, "0.3333"),
            (12.5, "12.5"),
            (100.0, "100"),
            (6817.4, "6817"),
            (123_456.0, "123456"),
            (999_999.9, "1e6"),
            (1.2e9, "1.2e9"),
            (-0.000_012, "-1.2e-5"),
            (0.1 + 0.2, "0.3"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value:?}");
        }
    }
}
