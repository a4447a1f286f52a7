//! Codecs: BMI framing and OrangeFS messages.
