//! Reads the options of a command line as getopt does: clusters, attached values, `--name=value`,
//! abbreviations of long names, `--`.

use crate::shell::ShellArg;

/// Which options of a program take a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OptionGrammar {
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
pub(super) struct ParsedOption {
    /// `o` or `output`; an abbreviation is completed. One that fits several names is there once for
    /// each of them: which one it is depends on the version of the program.
    pub(super) name: String,
    /// Its value, if it has one.
    pub(super) value: Option<ShellArg>,
}

/// A command line without its program, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedArguments {
    /// The options, in order.
    pub(super) given: Vec<ParsedOption>,
    /// Everything else, in order.
    pub(super) operands: Vec<ShellArg>,
    /// Whether some argument that is not known yet may turn out to be an option.
    pub(super) uncertain: bool,
}

impl ParsedArguments {
    /// Takes the arguments after the program's name apart.
    pub(super) fn parse(args: &[ShellArg], grammar: &OptionGrammar) -> Self {
        let mut options = Self::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let text = match arg {
                ShellArg::Known(text) => text.as_str(),
                arg => {
                    // `--out=$x` and `-o$x` are options whose value is unknown; `$x` may be anything.
                    let start = arg.known_prefix();
                    if let Some((name, _)) =
                        start.strip_prefix("--").and_then(|long| long.split_once('='))
                    {
                        let value = Some(strip_start(arg, name.len() + "--=".len()));
                        options.add_option(grammar.complete_name(name), value.as_ref());
                        continue;
                    }
                    if options.parse_unknown_cluster(arg, grammar) {
                        continue;
                    }
                    if start.is_empty() || start.starts_with('-') {
                        options.uncertain = true;
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
                    Some((name, value)) => (name, Some(ShellArg::known(value))),
                    None => (long, None),
                };
                let names = grammar.complete_name(name);
                let takes_value =
                    names.iter().any(|name| grammar.long_values.contains(&name.as_str()));
                let value = match attached {
                    Some(value) => Some(value),
                    None if !takes_value => None,
                    None if grammar.stops_at_operand || names == [name] => rest.next().cloned(),
                    // What looks like an abbreviation may be an option that is not listed, and
                    // then the next argument stands for itself.
                    None => rest.as_slice().first().cloned(),
                };
                options.add_option(names, value.as_ref());
            } else if let Some(cluster) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                options.parse_cluster(cluster, grammar, &mut rest);
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

    fn add_option(&mut self, names: Vec<String>, value: Option<&ShellArg>) {
        let given = names.into_iter().map(|name| ParsedOption { name, value: value.cloned() });
        self.given.extend(given);
    }

    fn parse_cluster<'a>(
        &mut self,
        cluster: &str,
        grammar: &OptionGrammar,
        rest: &mut impl Iterator<Item = &'a ShellArg>,
    ) {
        for (at, letter) in cluster.char_indices() {
            let name = letter.to_string();
            if !grammar.short_values.contains(letter) {
                self.given.push(ParsedOption { name, value: None });
                continue;
            }
            let attached = &cluster[at + letter.len_utf8()..];
            let value = if attached.is_empty() {
                rest.next().cloned()
            } else {
                Some(ShellArg::known(attached))
            };
            self.given.push(ParsedOption { name, value });
            return;
        }
    }

    /// Takes `-o$x` apart when `o` takes a value: what is not known is that value. Otherwise the
    /// unknown part may hold more options, and nothing is taken.
    fn parse_unknown_cluster(&mut self, arg: &ShellArg, grammar: &OptionGrammar) -> bool {
        let Some(cluster) = arg.known_prefix().strip_prefix('-') else { return false };
        if cluster.starts_with('-') || grammar.single_dash_long {
            return false;
        }
        let Some((at, letter)) =
            cluster.char_indices().find(|(_, letter)| grammar.short_values.contains(*letter))
        else {
            return false;
        };
        let flags = cluster[..at].chars();
        self.given.extend(flags.map(|flag| ParsedOption { name: flag.to_string(), value: None }));
        let value = Some(strip_start(arg, "-".len() + at + letter.len_utf8()));
        self.given.push(ParsedOption { name: letter.to_string(), value });
        true
    }

    /// Whether one of these options was given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| names.contains(&given.name.as_str()))
    }

    /// The values of these options, in order.
    pub(super) fn values<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a ShellArg> {
        self.given
            .iter()
            .filter(|given| names.contains(&given.name.as_str()))
            .filter_map(|given| given.value.as_ref())
    }
}

/// An argument that is not known, without the first `length` bytes of what it certainly starts with.
pub(super) fn strip_start(arg: &ShellArg, length: usize) -> ShellArg {
    let cut = |text: &str| text.get(length..).unwrap_or_default().to_owned();
    match arg {
        ShellArg::Known(text) => ShellArg::Known(cut(text)),
        ShellArg::Pattern(pattern) => ShellArg::Pattern(cut(pattern)),
        ShellArg::Unknown { starts_with, written } => {
            ShellArg::Unknown { starts_with: cut(starts_with), written: written.clone() }
        }
    }
}

impl OptionGrammar {
    /// The full names a name may stand for; itself when it is whole or not known.
    fn complete_name(&self, name: &str) -> Vec<String> {
        let known = || self.long_values.iter().chain(self.long_flags);
        let fits: Vec<String> = known()
            .filter(|known| known.starts_with(name))
            .map(|known| (*known).to_owned())
            .collect();
        if fits.is_empty() || known().any(|known| *known == name) {
            return vec![name.to_owned()];
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: OptionGrammar = OptionGrammar {
        short_values: "o",
        long_values: &["output"],
        long_flags: &["recursive", "reverse"],
        stops_at_operand: false,
        single_dash_long: false,
    };

    #[test]
    fn option_value_prefix_starts_after_option() {
        let unknown = |starts_with: &str, written: &str| ShellArg::Unknown {
            starts_with: starts_with.to_owned(),
            written: written.to_owned(),
        };
        let args = [
            unknown("--out=/etc/", "--out=/etc/$x"),
            unknown("-ro/etc/", "-ro/etc/$x"),
            ShellArg::Pattern("--output=a*".to_owned()),
        ];
        let options = ParsedArguments::parse(&args, &GRAMMAR);
        let starts: Vec<&str> =
            options.values(&["o", "output"]).map(|value| value.known_prefix()).collect();
        assert_eq!(starts, ["/etc/", "/etc/", "a"]);
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let args: Vec<ShellArg> = line
            .split_whitespace()
            .map(|word| match word.split_once('$') {
                Some((start, _)) => {
                    ShellArg::Unknown { starts_with: start.to_owned(), written: word.to_owned() }
                }
                None => ShellArg::known(word),
            })
            .collect();
        let options = ParsedArguments::parse(&args, &GRAMMAR);
        let mut shown: Vec<String> = Vec::new();
        for ParsedOption { name, value } in &options.given {
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
    fn options_parse_like_getopt() {
        check("-rf a", "r f <a>");
        check("-ro out a", "r o=out <a>");
        check("-oout a -", "o=out <a> <->");
        check("--out=x --rec --re", "output=x recursive recursive reverse");
        check("--output x y -- -r", "output=x <y> <-r>");
        check("$x --output=$y", "output=--output=$y <$x> ?");
        check("--outp x -r", "output=x r <x>");
        check("a$x", "<a$x>");
        check("-ro$x -r$x a", "r o=-ro$x <-r$x> <a> ?");
    }
}
