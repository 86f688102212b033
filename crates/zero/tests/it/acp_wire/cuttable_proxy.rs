//! A wire to a gateway that can be cut: passes bytes on by a port that stays the same.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The wire. Its threads end with the test.
pub(crate) struct CuttableProxy {
    pub(crate) url: String,
    state: Arc<Mutex<CutState>>,
}

#[derive(Default)]
struct CutState {
    is_cut: bool,
    ends: Vec<TcpStream>,
}

impl CuttableProxy {
    /// A wire to what listens at an address.
    pub(crate) fn to_address(address: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(CutState::default()));
        let (address, shared) = (address.to_owned(), Arc::clone(&state));
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let mut state = shared.lock().unwrap();
                let Some(far) = (!state.is_cut).then(|| TcpStream::connect(&address).unwrap())
                else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    state.ends.push(from.try_clone().unwrap());
                    forward(from.try_clone().unwrap(), to.try_clone().unwrap());
                }
            }
        });
        Self { url, state }
    }

    /// Ends every connection, and lets nobody through.
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_cut = true;
        state.ends.drain(..).for_each(|end| drop(end.shutdown(Shutdown::Both)));
    }

    /// Lets them through again.
    pub(crate) fn restore(&self) {
        self.state.lock().unwrap().is_cut = false;
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}
