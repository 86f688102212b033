//! Status line that counts the seconds of an activity that takes longer than one second.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zero_core::text_shortening::head_chars;

use super::{FAINT, TerminalStream, escape_line};

/// Time before the counter appears.
const SHOW_DELAY: Duration = Duration::from_secs(1);
/// Time between two updates of the line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Counter that draws only on a terminal and clears its line when it stops.
#[derive(Clone)]
pub struct ElapsedCounter {
    shared: Option<Arc<CounterShared>>,
}

struct CounterShared {
    stream: TerminalStream,
    state: Mutex<CounterState>,
    changed: Condvar,
}

#[derive(Default)]
struct CounterState {
    /// Current activity, if any.
    running: Option<CountedActivity>,
    drawn: bool,
    /// Number of active pauses; nothing is drawn while it is above zero.
    pauses: usize,
    /// Whether the drawing thread is running.
    attended: bool,
}

struct CountedActivity {
    what: String,
    since: Instant,
}

impl ElapsedCounter {
    /// Writes a sequence to the terminal, if there is one.
    pub fn write_signal(&self, signal: &str) {
        if let Some(shared) = &self.shared {
            // Without a terminal, it is not needed.
            let _ = shared.stream.write(signal);
        }
    }

    /// Counter that draws on `stream` if it is a terminal.
    pub fn new(stream: &TerminalStream) -> Self {
        let shared = (stream.is_terminal() && !stream.appends_only()).then(|| {
            Arc::new(CounterShared {
                stream: stream.clone(),
                state: Mutex::default(),
                changed: Condvar::new(),
            })
        });
        Self { shared }
    }

    /// Starts counting for an activity; replaces the current one.
    pub fn start(&self, what: &str) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.lock();
        shared.clear(&mut state);
        state.running =
            Some(CountedActivity { what: escape_line(what).into_owned(), since: Instant::now() });
        if !state.attended {
            let shared = Arc::clone(shared);
            let thread = std::thread::Builder::new().name("counter".to_owned());
            // If the thread cannot start, there is no counter, which is acceptable.
            state.attended = thread.spawn(move || shared.run_drawing_loop()).is_ok();
        }
    }

    /// Replaces the text of the current activity by the last line of this one; the time keeps counting.
    pub fn progress(&self, message: &str) {
        let Some(shared) = &self.shared else { return };
        let mut lines = message.lines().rev().map(str::trim_end);
        let Some(last) = lines.find(|line| !line.is_empty()) else { return };
        if let Some(running) = &mut shared.lock().running {
            running.what = escape_line(last).into_owned();
        }
    }

    /// Clears the line, for example for a question, until the guard is dropped.
    pub fn pause(&self) -> CounterPauseGuard {
        if let Some(shared) = &self.shared {
            let mut state = shared.lock();
            state.pauses += 1;
            shared.clear(&mut state);
        }
        CounterPauseGuard { shared: self.shared.clone(), since: Instant::now() }
    }

    /// Stops counting and clears the line.
    pub fn stop(&self) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.lock();
        state.running = None;
        shared.clear(&mut state);
        shared.changed.notify_all();
    }
}

/// Pauses the counter until it is dropped. The time of a pause does not count.
pub struct CounterPauseGuard {
    shared: Option<Arc<CounterShared>>,
    since: Instant,
}

impl Drop for CounterPauseGuard {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            let mut state = shared.lock();
            state.pauses = state.pauses.saturating_sub(1);
            if let Some(running) = &mut state.running {
                running.since += running.since.max(self.since).elapsed();
            }
        }
    }
}

impl CounterShared {
    fn lock(&self) -> MutexGuard<'_, CounterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_drawing_loop(&self) {
        let mut state = self.lock();
        while let Some(running) = &state.running {
            let elapsed = running.since.elapsed();
            self.draw(&mut state, elapsed);
            let pause = SHOW_DELAY.saturating_sub(elapsed).max(REDRAW_INTERVAL);
            state =
                self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.attended = false;
    }

    /// Draws the current activity, if it has taken long enough and nothing pauses the counter.
    fn draw(&self, state: &mut CounterState, elapsed: Duration) {
        let Some(running) = &state.running else { return };
        if elapsed < SHOW_DELAY || state.pauses > 0 {
            return;
        }
        let mut line = format!("{} … {} s", running.what, elapsed.as_secs());
        if let Some(columns) = self.stream.columns {
            line = head_chars(&line, columns.saturating_sub(1)).to_owned();
        }
        let _ = self.stream.write(&format!("\r\x1b[K{}", self.stream.paint(FAINT, &line)));
        state.drawn = true;
    }

    fn clear(&self, state: &mut CounterState) {
        if std::mem::take(&mut state.drawn) {
            let _ = self.stream.write("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Terminal;

    #[test]
    fn counter_is_silent_while_paused() {
        let stream = Terminal::for_test().err.with_columns(80).without_colours();
        let counter = ElapsedCounter::new(&stream);
        counter.start("slow");
        let shared = counter.shared.as_ref().unwrap();
        let pause = counter.pause();
        shared.draw(&mut shared.lock(), 2 * SHOW_DELAY);
        assert_eq!(stream.written_text(), "");
        // An activity that begins meanwhile is not drawn either, and its time counts from the end.
        counter.start("slow");
        shared.draw(&mut shared.lock(), 2 * SHOW_DELAY);
        assert_eq!(stream.written_text(), "");
        let begun = shared.lock().running.as_ref().unwrap().since;
        drop(pause);
        assert!(shared.lock().running.as_ref().unwrap().since > begun);
        shared.draw(&mut shared.lock(), SHOW_DELAY / 2);
        assert_eq!(stream.written_text(), "", "it is too early");
        shared.draw(&mut shared.lock(), 2 * SHOW_DELAY);
        assert!(stream.written_text().contains("slow … "), "it goes on");
        counter.stop();
    }

    #[test]
    fn counter_appears_after_a_second_and_clears_its_line() {
        let stream = Terminal::for_test().err.with_columns(80).without_colours();
        let counter = ElapsedCounter::new(&stream);
        counter.start("quick");
        counter.stop();
        let begun = Instant::now();
        counter.start("slow");
        wait_for_output(&stream);
        assert!(begun.elapsed() >= SHOW_DELAY);
        counter.stop();
        let drawn = stream.written_text();
        let (seconds, _) = drawn
            .strip_prefix("\r\x1b[Kslow … ")
            .and_then(|rest| rest.split_once(" s"))
            .unwrap_or_else(|| panic!("{drawn:?}"));
        assert!(seconds.parse::<u64>().unwrap() >= 1 && drawn.ends_with("\r\x1b[K"), "{drawn:?}");
    }

    #[track_caller]
    fn wait_for_output(stream: &TerminalStream) {
        let until = Instant::now() + Duration::from_secs(60);
        while stream.written_text().is_empty() {
            assert!(Instant::now() < until, "it says nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
