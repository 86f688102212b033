//! Finds forms in a view by fragments of four bytes.
//!
//! Of each form, four consecutive fragments are known. So one of them begins at every fourth position
//! of a view in which the form occurs, and only these positions are looked up: first in a table of
//! bits, which says no nearly always, then by the fragment itself.

use super::{FormMatch, SecretForm};

/// Distance of the positions that are looked up, and number of known fragments of each form.
const STRIDE: usize = 4;
const FRAGMENT_BYTES: usize = 4;
/// Bits of the filter for each fragment: one of 32 positions is looked up for nothing.
const BITS_PER_FRAGMENT: usize = 32;
/// Shortest end of a form that counts as the form.
const FORM_REST_BYTES_MIN: usize = 8;
/// Size of the table in which fragments are counted.
const COUNTER_BITS: u32 = 16;
/// Comparisons that the shortest text is worth.
const COMPARISONS_MIN: usize = 100_000;
const FILTER_BITS_MIN: u32 = 12;
const FILTER_BITS_MAX: u32 = 22;

/// All forms of all values.
#[derive(Default)]
pub(super) struct FragmentIndex {
    /// Sorted by their bytes.
    forms: Vec<SecretForm>,
    form_bytes_max: usize,
    /// The known fragments.
    filter: HashedBits,
    occurrences: FragmentOccurrences,
    /// The first fragments of all forms.
    beginnings: HashedBits,
}

/// A known fragment of a form.
#[derive(Clone, Copy, Default)]
struct FragmentOccurrence {
    fragment: u32,
    form: u32,
    /// Its position in the form.
    offset: u32,
}

/// All known fragments, sorted by their hashes.
#[derive(Default)]
struct FragmentOccurrences {
    sorted: Vec<FragmentOccurrence>,
    /// Where those begin whose hashes begin with these bits, and the end.
    starts: Vec<u32>,
}

/// How many comparisons one text is worth. Values that consist of the same fragments, in a text of
/// nothing else, would take hours.
pub(super) struct SearchBudget {
    left: usize,
}

impl SearchBudget {
    pub(super) fn for_view(view: &[u8]) -> Self {
        Self { left: COMPARISONS_MIN + view.len() }
    }

    fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }
}

/// The longest beginning of a form at the end of a view.
pub(super) struct OpenEnd {
    pub(super) start: usize,
    pub(super) owner: usize,
    pub(super) can_be_cut: bool,
}

impl FragmentIndex {
    /// Shortest form that is found at every position.
    pub(super) const FORM_BYTES_MIN: usize = STRIDE - 1 + FRAGMENT_BYTES;

    pub(super) fn new(forms: Vec<SecretForm>) -> Self {
        let forms = sort_forms(forms);
        // Fragments that share a counter are counted together: that only makes the choice worse.
        let mut counts = vec![0_u16; 1 << COUNTER_BITS];
        for form in &forms {
            for fragment in fragments(&form.view) {
                let count = &mut counts[counter_of(fragment)];
                *count = count.saturating_add(1);
            }
        }
        let mut known = Vec::with_capacity(forms.len() * STRIDE);
        let mut scratch = Vec::new();
        for (at, form) in (0..).zip(&forms) {
            let first = find_rarest_part(&form.view, &counts, &mut scratch);
            let part = (0..).zip(fragments(&form.view)).skip(first).take(STRIDE);
            known.extend(part.map(|(offset, fragment)| FragmentOccurrence {
                fragment,
                form: at,
                offset,
            }));
        }
        let (mut filter, mut beginnings) =
            (HashedBits::with_room(known.len()), HashedBits::with_room(forms.len()));
        known.iter().for_each(|known| filter.insert(known.fragment));
        forms.iter().for_each(|form| beginnings.insert(fragment_at(&form.view, 0)));
        let form_bytes_max = forms.iter().map(|form| form.view.len()).max().unwrap_or(0);
        let occurrences = FragmentOccurrences::new(&known);
        Self { forms, form_bytes_max, filter, occurrences, beginnings }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Bytes of the longest form.
    pub(super) fn form_bytes_max(&self) -> usize {
        self.form_bytes_max
    }

    /// All occurrences of all forms in a view. If the budget is spent, the rest of the view counts as
    /// one.
    pub(super) fn find(&self, view: &[u8], budget: &mut SearchBudget) -> Vec<FormMatch> {
        let mut found = Vec::new();
        for (block, bytes) in view.chunks_exact(STRIDE).enumerate() {
            let fragment = fragment_at(bytes, 0);
            if self.filter.contains(fragment) {
                let at = block * STRIDE;
                self.compare(view, at, fragment, budget, &mut found);
                if budget.is_spent() {
                    let start = at.saturating_sub(self.form_bytes_max);
                    found.push(FormMatch { range: start..view.len(), owner: 0 });
                    break;
                }
            }
        }
        found
    }

    fn compare(
        &self,
        view: &[u8],
        at: usize,
        fragment: u32,
        budget: &mut SearchBudget,
        found: &mut Vec<FormMatch>,
    ) {
        for occurrence in self.occurrences.find(fragment) {
            if budget.is_spent() {
                return;
            }
            budget.spend();
            let form = self.forms.get(occurrence.form as usize);
            let Some(form) = form else { continue };
            let lost = lost_bytes_max(&form.view);
            let (head, rest) = form.view.split_at(lost);
            let Some(start) = (at + lost).checked_sub(occurrence.offset as usize) else { continue };
            let end = start + rest.len();
            if view.get(start..end) == Some(rest) {
                let before = view.get(..start).unwrap_or_default();
                let equal = before.iter().rev().zip(head.iter().rev());
                let equal = equal.take_while(|(a, b)| a == b).count();
                found.push(FormMatch { range: start - equal..end, owner: form.owner });
            }
        }
    }

    /// The longest beginning of a form, of at least `bytes_min`, that the view ends with. The whole
    /// form is not a beginning.
    pub(super) fn find_open_end(
        &self,
        view: &[u8],
        bytes_min: usize,
        budget: &mut SearchBudget,
    ) -> Option<OpenEnd> {
        let first = view.len().saturating_sub(self.form_bytes_max.saturating_sub(1));
        let last = view.len().checked_sub(bytes_min.max(1))?;
        (first..=last).find_map(|start| {
            let end = view.get(start..)?;
            if end.len() >= FRAGMENT_BYTES && !self.beginnings.contains(fragment_at(end, 0)) {
                return None;
            }
            budget.spend();
            let at = self.forms.partition_point(|form| &*form.view <= end);
            let form = self.forms.get(at).filter(|form| form.view.starts_with(end))?;
            Some(OpenEnd { start, owner: form.owner, can_be_cut: form.can_be_cut })
        })
    }
}

impl FragmentOccurrences {
    /// Sorts them by their hashes: first by the bits at which a list begins, by counting.
    fn new(known: &[FragmentOccurrence]) -> Self {
        let mut starts = vec![0_u32; (1 << COUNTER_BITS) + 1];
        for one in known {
            starts[counter_of(one.fragment) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut sorted = vec![FragmentOccurrence::default(); known.len()];
        for one in known {
            let next = &mut next[counter_of(one.fragment)];
            sorted[*next as usize] = *one;
            *next += 1;
        }
        for at in starts.windows(2) {
            // Most lists have one.
            if let Some(list @ [_, _, ..]) = sorted.get_mut(at[0] as usize..at[1] as usize) {
                list.sort_by_key(|one| one.fragment);
            }
        }
        Self { sorted, starts }
    }

    /// The occurrences of a fragment.
    fn find(&self, fragment: u32) -> &[FragmentOccurrence] {
        let at = counter_of(fragment);
        let (Some(start), Some(end)) = (self.starts.get(at), self.starts.get(at + 1)) else {
            return &[];
        };
        let list = self.sorted.get(*start as usize..*end as usize).unwrap_or_default();
        let first = list.partition_point(|one| one.fragment < fragment);
        let count = list.iter().skip(first).take_while(|one| one.fragment == fragment).count();
        list.get(first..first + count).unwrap_or_default()
    }
}

/// Sorts forms by their bytes, and removes those that are there twice.
fn sort_forms(forms: Vec<SecretForm>) -> Vec<SecretForm> {
    // The first bytes decide nearly always; they are compared without a look at the form.
    let first = |view: &[u8]| {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(view).for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(bytes)
    };
    let mut keyed: Vec<(u64, SecretForm)> =
        forms.into_iter().map(|form| (first(&form.view), form)).collect();
    keyed.sort_by(|(a, left), (b, right)| a.cmp(b).then_with(|| left.view.cmp(&right.view)));
    keyed.dedup_by(|(a, left), (b, right)| a == b && left.view == right.view);
    keyed.into_iter().map(|(_, form)| form).collect()
}

/// Where the rarest consecutive fragments of a form begin: keys of one vendor begin alike. `scratch` is
/// used again for each form.
fn find_rarest_part(view: &[u8], counts: &[u16], scratch: &mut Vec<u16>) -> usize {
    let first = lost_bytes_max(view);
    let part = view.get(first..).unwrap_or_default();
    scratch.clear();
    scratch.extend(fragments(part).map(|it| counts.get(counter_of(it)).copied().unwrap_or(0)));
    let sums =
        scratch.windows(STRIDE).map(|part| part.iter().map(|it| u32::from(*it)).sum::<u32>());
    let rarest = sums.enumerate().min_by_key(|(_, sum)| *sum);
    rarest.map_or(0, |(at, _)| first + at)
}

/// How many bytes at the beginning of a form a sign before it may take along: `%` and two digits, `\n`,
/// `\u` and four digits, a terminal sequence and a letter. A form is found without them.
fn lost_bytes_max(view: &[u8]) -> usize {
    let count = |at: usize, most: usize, is_taken: fn(&u8) -> bool| {
        let rest = view.get(at..).unwrap_or_default().iter().take(most);
        rest.take_while(|byte| is_taken(byte)).count()
    };
    let lost = match view.first() {
        Some(b'x') => 1 + count(1, 2, u8::is_ascii_hexdigit),
        Some(b'u') => 1 + count(1, 4, u8::is_ascii_hexdigit),
        _ => count(0, 4, u8::is_ascii_hexdigit),
    };
    let lost = lost.max(1 + count(0, 4, |byte| (0x20..0x40).contains(byte)));
    lost.min(view.len().saturating_sub(FORM_REST_BYTES_MIN))
}

fn fragments(view: &[u8]) -> impl Iterator<Item = u32> {
    view.windows(FRAGMENT_BYTES).map(|bytes| fragment_at(bytes, 0))
}

fn fragment_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk::<FRAGMENT_BYTES>);
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Where a fragment is counted, and its list begins.
fn counter_of(fragment: u32) -> usize {
    (hash(fragment) >> (32 - COUNTER_BITS)) as usize
}

fn hash(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1)
}

/// A set of numbers that may contain more than was inserted.
#[derive(Default)]
struct HashedBits {
    words: Vec<u64>,
    shift: u32,
}

impl HashedBits {
    fn with_room(count: usize) -> Self {
        let wanted = (count * BITS_PER_FRAGMENT).next_power_of_two().trailing_zeros();
        let bits = wanted.clamp(FILTER_BITS_MIN, FILTER_BITS_MAX);
        Self { words: vec![0; 1 << (bits - 6)], shift: 32 - bits }
    }

    fn hash(&self, number: u32) -> usize {
        (hash(number) >> self.shift) as usize
    }

    fn insert(&mut self, number: u32) {
        let at = self.hash(number);
        if let Some(word) = self.words.get_mut(at >> 6) {
            *word |= 1 << (at & 63);
        }
    }

    fn contains(&self, number: u32) -> bool {
        let at = self.hash(number);
        self.words.get(at >> 6).is_some_and(|word| word >> (at & 63) & 1 == 1)
    }
}
