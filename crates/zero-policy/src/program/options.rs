//! Reads the options of a command line as getopt does: clusters, attached values, `--name=value`,
//! abbreviations of long names, `--`.

use crate::shell::Arg;

/// Which options of a program take a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grammar {
    /// Short options that take a value: `"of"` for `-o FILE -f FILE`.
    pub(super) short_values: &'static str,
    /// Long options that take a value as the next argument or after `=`, without dashes.
    pub(super) long_values: &'static [&'static str],
    /// Other long options, so that an abbreviation can be completed. Those that take a value only
    /// after `=` belong here too.
    pub(super) long_flags: &'static [&'static str],
    /// Whether options end at the first operand, as for programs that run another one.
    pub(super) stops_at_operand: bool,
    /// Whether long options may be written with one dash, as `find` and `java` do.
    pub(super) single_dash_long: bool,
}

/// An option that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// `o` or `output`; an abbreviation is completed. One that fits several names is kept as
    /// written.
    pub(super) name: String,
    /// Its value, if it has one.
    pub(super) value: Option<Arg>,
}

/// A command line without its program, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The options, in order.
    pub(super) given: Vec<Given>,
    /// Everything else, in order.
    pub(super) operands: Vec<Arg>,
    /// Whether some argument that is not known yet may turn out to be an option.
    pub(super) uncertain: bool,
}

impl Options {
    /// Takes the arguments after the program's name apart.
    pub(super) fn parse(args: &[Arg], grammar: &Grammar) -> Self {
        let mut options = Self::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let text = match arg {
                Arg::Known(text) => text.as_str(),
                arg => {
                    // `--out=$x` is an option whose value is unknown; `$x` may be anything.
                    let start = arg.certain_start();
                    match start.strip_prefix("--").and_then(|long| long.split_once('=')) {
                        Some((name, _)) => {
                            let name = grammar.complete(name);
                            options.given.push(Given { name, value: Some(arg.clone()) });
                            continue;
                        }
                        None if start.is_empty() || start.starts_with('-') => {
                            options.uncertain = true;
                        }
                        None => {}
                    }
                    options.operands.push(arg.clone());
                    if grammar.stops_at_operand {
                        options.operands.extend(rest.cloned());
                        break;
                    }
                    continue;
                }
            };
            if text == "--" {
                options.operands.extend(rest.cloned());
                break;
            }
            let long = text.strip_prefix("--").or_else(|| {
                let name = text.strip_prefix('-').filter(|name| name.len() > 1)?;
                grammar.single_dash_long.then_some(name)
            });
            if let Some(long) = long {
                let (name, attached) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(Arg::known(value))),
                    None => (long, None),
                };
                let name = grammar.complete(name);
                let value = match attached {
                    Some(value) => Some(value),
                    None if grammar.long_values.contains(&name.as_str()) => rest.next().cloned(),
                    None => None,
                };
                options.given.push(Given { name, value });
            } else if let Some(cluster) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                options.cluster(cluster, grammar, &mut rest);
            } else {
                options.operands.push(arg.clone());
                if grammar.stops_at_operand {
                    options.operands.extend(rest.cloned());
                    break;
                }
            }
        }
        options
    }

    fn cluster<'a>(
        &mut self,
        cluster: &str,
        grammar: &Grammar,
        rest: &mut impl Iterator<Item = &'a Arg>,
    ) {
        for (at, letter) in cluster.char_indices() {
            let name = letter.to_string();
            if !grammar.short_values.contains(letter) {
                self.given.push(Given { name, value: None });
                continue;
            }
            let attached = &cluster[at + letter.len_utf8()..];
            let value =
                if attached.is_empty() { rest.next().cloned() } else { Some(Arg::known(attached)) };
            self.given.push(Given { name, value });
            return;
        }
    }

    /// Whether one of these options was given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| names.contains(&given.name.as_str()))
    }

    /// The values of these options, in order.
    pub(super) fn values<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a Arg> {
        self.given
            .iter()
            .filter(|given| names.contains(&given.name.as_str()))
            .filter_map(|given| given.value.as_ref())
    }
}

impl Grammar {
    /// The full name an abbreviation stands for, when it is the only one.
    fn complete(&self, name: &str) -> String {
        let known = self.long_values.iter().chain(self.long_flags);
        let mut fits = known.filter(|known| known.starts_with(name));
        let exact = self.long_values.iter().chain(self.long_flags).any(|known| *known == name);
        match (fits.next(), fits.next()) {
            (Some(only), None) if !exact => (*only).to_owned(),
            _ => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: Grammar = Grammar {
        short_values: "o",
        long_values: &["output"],
        long_flags: &["recursive", "reverse"],
        stops_at_operand: false,
        single_dash_long: false,
    };

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let args: Vec<Arg> = line
            .split_whitespace()
            .map(|word| match word.split_once('$') {
                Some((start, _)) => {
                    Arg::Unknown { starts_with: start.to_owned(), written: word.to_owned() }
                }
                None => Arg::known(word),
            })
            .collect();
        let options = Options::parse(&args, &GRAMMAR);
        let mut shown: Vec<String> = Vec::new();
        for Given { name, value } in &options.given {
            shown.push(match value {
                Some(value) => format!("{name}={value}"),
                None => name.clone(),
            });
        }
        shown.extend(options.operands.iter().map(|operand| format!("<{operand}>")));
        if options.uncertain {
            shown.push("?".to_owned());
        }
        assert_eq!(shown.join(" "), expected, "{line}");
    }

    #[test]
    fn options_are_read_as_getopt_reads_them() {
        check("-rf a", "r f <a>");
        check("-ro out a", "r o=out <a>");
        check("-oout a -", "o=out <a> <->");
        check("--out=x --rec --re", "output=x recursive re");
        check("--output x y -- -r", "output=x <y> <-r>");
        check("$x --output=$y", "output=--output=$y <$x> ?");
        check("a$x", "<a$x>");
    }
}
